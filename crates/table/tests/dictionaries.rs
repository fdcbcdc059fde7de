//! Columns of texts whose batches have lists of their own.

use anabranch_table::{Column, Format, Kind, Table, Values};
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Batches of one row group may number their texts differently: a place means the text of its own batch's list.
#[test]
fn two_batches_of_a_dictionary_have_the_texts_of_their_own_lists() {
    let columns =
        [Column::new("name", Kind::Text).dense().required(), Column::new("why", Kind::Text).dense()];
    let list = |texts: &[&str]| -> Vec<Box<str>> { texts.iter().map(|text| (*text).into()).collect() };
    let batches: [(Vec<Box<str>>, &[u32]); 4] = [
        (list(&["a", "b", "c"]), &[0, 1, 2, 1]),
        (list(&["c", "d", "a"]), &[0, 1, 2, 1]),
        // A shorter and a longer list.
        (list(&["d"]), &[0, 0]),
        (list(&["e", "a", "d", "b", "c"]), &[4, 3, 2, 1, 0]),
    ];
    for format in Format::ALL {
        let mut table = Table::new(Vec::new(), format, &columns).unwrap();
        for (list, places) in &batches {
            // Places after the end of the list are missing.
            let beyond: Vec<u32> =
                places.iter().map(|place| if place % 2 == 0 { *place } else { 99 }).collect();
            table.rows(&[Values::Texts(list, places), Values::Texts(list, &beyond)]).unwrap();
        }
        let bytes = table.finish().unwrap();
        let found: Vec<(String, Option<String>)> = match format {
            Format::Parquet => {
                let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
                let text = |field: &parquet::record::Field| match field {
                    parquet::record::Field::Str(text) => Some(text.clone()),
                    _ => None,
                };
                let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
                rows.map(|row| {
                    let mut cells = row.get_column_iter().map(|(_, field)| text(field));
                    (cells.next().unwrap().unwrap(), cells.next().unwrap())
                })
                .collect()
            }
            Format::Csv => {
                let text = String::from_utf8(bytes).unwrap();
                let rows = text.lines().skip(1).map(|line| line.split_once(',').unwrap());
                rows.map(|(name, why)| (name.to_owned(), Some(why.to_owned()).filter(|why| !why.is_empty())))
                    .collect()
            }
            Format::Ndjson => continue,
        };
        let mut rows = Vec::new();
        for (list, places) in &batches {
            for place in *places {
                let text = list[*place as usize].to_string();
                rows.push((text.clone(), (place % 2 == 0).then_some(text)));
            }
        }
        assert_eq!(found, rows, "{}", format.name());
    }
}
