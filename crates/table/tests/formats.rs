//! The same rows in every format, read back by independent readers.

use anabranch_table::{Cell, Column, Format, Kind, ROWS_PER_GROUP, Table};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

const KINDS: [(&str, Kind); 4] =
    [("name", Kind::Text), ("n", Kind::Integer), ("fct_s", Kind::Number), ("best", Kind::Flag)];

fn columns() -> Vec<Column> {
    KINDS.map(|(name, kind)| Column::new(name, kind)).to_vec()
}

/// Returns the table of `rows` rows, in which every third value is missing.
fn table(format: Format, rows: usize) -> Vec<u8> {
    let mut table = Table::new(Vec::new(), format, &columns()).unwrap();
    for row in 0..rows {
        let name = format!("flow, \"{row}\"");
        let all = [
            Cell::Text(&name),
            Cell::Integer(-(row as i64)),
            Cell::Number(row as f64 / 3.0),
            Cell::Flag(row % 2 == 0),
        ];
        let kept = |(at, cell)| if (row + at) % 3 == 0 { Cell::Missing } else { cell };
        let cells: Vec<Cell<'_>> = all.into_iter().enumerate().map(kept).collect();
        table.row(&cells).unwrap();
    }
    table.finish().unwrap()
}

#[test]
fn parquet_holds_every_value_over_several_groups() {
    let rows = ROWS_PER_GROUP + 10;
    let reader = SerializedFileReader::new(bytes::Bytes::from(table(Format::Parquet, rows))).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
    assert_eq!(reader.metadata().file_metadata().num_rows(), rows as i64);
    let mut count = 0;
    for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
        for (at, (name, field)) in record.unwrap().get_column_iter().enumerate() {
            assert_eq!(name, KINDS[at].0);
            let expected = match at {
                _ if (row + at) % 3 == 0 => Field::Null,
                0 => Field::Str(format!("flow, \"{row}\"")),
                1 => Field::Long(-(row as i64)),
                2 => Field::Double(row as f64 / 3.0),
                _ => Field::Bool(row % 2 == 0),
            };
            assert_eq!(*field, expected, "row {row}, column {name}");
        }
        count += 1;
    }
    assert_eq!(count, rows);
}

#[test]
fn csv_and_json_lines_hold_every_value() {
    let bytes = table(Format::Csv, 9);
    let records: Vec<csv::StringRecord> =
        csv::Reader::from_reader(&bytes[..]).records().collect::<Result<_, _>>().unwrap();
    let lines = table(Format::Ndjson, 9);
    let lines: Vec<serde_json::Value> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!((records.len(), lines.len()), (9, 9));
    for (record, line) in records.iter().zip(&lines) {
        for (at, (name, _)) in KINDS.iter().enumerate() {
            let text = match &line[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let (of_csv, of_json) = (&record[at], text.trim_end_matches(".0"));
            assert_eq!(of_csv, of_json, "{name}");
        }
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    for format in Format::ALL {
        assert_eq!(table(format, 1000), table(format, 1000), "{}", format.name());
    }
}

#[test]
fn a_row_that_does_not_fit_its_columns_is_refused() {
    let mut table = Table::new(Vec::new(), Format::Parquet, &columns()).unwrap();
    let message = |error: std::io::Error| error.to_string();
    assert_eq!(message(table.row(&[Cell::Missing]).unwrap_err()), "1 cells for 4 columns");
    let wrong = [Cell::Text("a"), Cell::Number(1.0), Cell::Missing, Cell::Missing];
    assert_eq!(message(table.row(&wrong).unwrap_err()), "a value of column `n` has another type");
    let twice = [Column::new("a", Kind::Text), Column::new("a", Kind::Flag)];
    assert!(Table::new(Vec::new(), Format::Csv, &twice).is_err());
    assert!(Table::new(Vec::new(), Format::Csv, &[]).is_err());
}

/// A device that is full after some bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(std::io::Error::from_raw_os_error(28));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_system() {
    // The first number fails at the end, the second while rows are written.
    for (format, rows) in Format::ALL.into_iter().flat_map(|format| [(format, 100), (format, 20_000)]) {
        let full = || -> std::io::Result<()> {
            let mut table = Table::new(Full(100), format, &columns())?;
            for _ in 0..rows {
                table.row(&[Cell::Text("a"), Cell::Integer(1), Cell::Number(0.5), Cell::Flag(true)])?;
            }
            table.finish().map(drop)
        };
        let error = full().unwrap_err();
        assert!(error.to_string().ends_with("(os error 28)"), "{} of {rows} rows: {error}", format.name());
    }
}

#[test]
fn columns_of_many_rows_and_without_missing_values_hold_every_value() {
    let columns = [
        Column::new("t_ns", Kind::Integer).dense().required(),
        Column::new("edge_bytes", Kind::Integer).dense(),
        Column::new("event", Kind::Text).dense().required(),
        Column::new("score", Kind::Number).dense(),
    ];
    let value = |row: usize| (row as i64 * 1_234_567) % (1 << 40) - 99;
    let name = |row: usize| ["sent", "received", "lost"][row % 3];
    let rows = ROWS_PER_GROUP + 10;
    let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
    for row in 0..rows {
        let edge = if row % 2 == 0 { Cell::Missing } else { Cell::Integer(-value(row)) };
        let score = if row % 5 == 0 { Cell::Number(row as f64) } else { Cell::Missing };
        table.row(&[Cell::Integer(value(row)), edge, Cell::Text(name(row)), score]).unwrap();
    }
    let reader = SerializedFileReader::new(bytes::Bytes::from(table.finish().unwrap())).unwrap();
    for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
        let record = record.unwrap();
        let fields: Vec<&Field> = record.get_column_iter().map(|(_, field)| field).collect();
        let edge = if row % 2 == 0 { Field::Null } else { Field::Long(-value(row)) };
        let score = if row % 5 == 0 { Field::Double(row as f64) } else { Field::Null };
        let wanted = [Field::Long(value(row)), edge, Field::Str(name(row).to_owned()), score];
        assert_eq!(fields, wanted.iter().collect::<Vec<_>>(), "row {row}");
    }

    let mut table = Table::new(Vec::new(), Format::Csv, &columns).unwrap();
    let error = table.row(&[Cell::Missing, Cell::Missing, Cell::Text("sent"), Cell::Missing]).unwrap_err();
    assert_eq!(error.to_string(), "a value of column `t_ns` is missing or has another type");
}

/// Texts of a dense column: runs, changes, missing ones, and more than the 256 that a byte could number.
#[test]
fn a_dense_column_of_texts_holds_every_value() {
    let few = ["up", "down", "a longer one"];
    let many: Vec<String> = (0..700).map(|number| format!("link {number}")).collect();
    let columns = ["constant", "few", "many", "rare", "none"];
    let columns = columns.map(|name| Column::new(name, Kind::Text).dense());
    let cells = |row: usize| {
        let rare = if row % 1000 == 7 { Cell::Text("rare") } else { Cell::Missing };
        let few = few[if row % 100 < 50 { row % 3 } else { 1 }];
        [Cell::Text("constant"), Cell::Text(few), Cell::Text(&many[row * row % 700]), rare, Cell::Missing]
    };
    for rows in [1, 7, 8, 9, 1000, ROWS_PER_GROUP + 3] {
        let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
        for row in 0..rows {
            table.row(&cells(row)).unwrap();
            // A row that is refused leaves nothing.
            let wrong =
                [Cell::Text("constant"), Cell::Missing, Cell::Integer(1), Cell::Missing, Cell::Missing];
            assert!(row % 10 != 0 || table.row(&wrong).is_err());
        }
        let reader = SerializedFileReader::new(bytes::Bytes::from(table.finish().unwrap())).unwrap();
        let mut count = 0;
        for (row, record) in reader.get_row_iter(None).unwrap().enumerate() {
            for ((name, field), cell) in record.unwrap().get_column_iter().zip(cells(row)) {
                let expected = match cell {
                    Cell::Text(text) => Field::Str(text.to_owned()),
                    _ => Field::Null,
                };
                assert_eq!(*field, expected, "row {row} of {rows}, column {name}");
            }
            count += 1;
        }
        assert_eq!(count, rows);
    }
}
