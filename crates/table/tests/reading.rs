//! Tables are read as they were written.

use std::path::PathBuf;

use anabranch_table::{Cell, Column, Format, Kind, ROWS_PER_GROUP, Table, read};

const COLUMNS: [(&str, Kind); 4] =
    [("name", Kind::Text), ("n", Kind::Integer), ("fct_s", Kind::Number), ("best", Kind::Flag)];

/// Writes a table of `rows` rows, in which every third value is missing but those of the required `n`.
fn table(directory: &tempfile::TempDir, format: Format, rows: usize) -> PathBuf {
    let columns = COLUMNS.map(|(name, kind)| {
        let column = Column::new(name, kind).dense();
        if name == "n" { column.required() } else { column }
    });
    let mut table = Table::new(Vec::new(), format, &columns).unwrap();
    for row in 0..rows {
        let cells = cells(row);
        table.row(&cells.each_ref().map(|cell| cell.as_cell())).unwrap();
    }
    let path = directory.path().join(format!("table.{}", format.name()));
    std::fs::write(&path, table.finish().unwrap()).unwrap();
    path
}

/// A cell that owns its text.
#[derive(Debug, PartialEq)]
enum Own {
    Missing,
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
}

impl Own {
    fn as_cell(&self) -> Cell<'_> {
        match self {
            Own::Missing => Cell::Missing,
            Own::Text(text) => Cell::Text(text),
            Own::Integer(number) => Cell::Integer(*number),
            Own::Number(number) => Cell::Number(*number),
            Own::Flag(flag) => Cell::Flag(*flag),
        }
    }
}

fn cells(row: usize) -> [Own; 4] {
    let kept = |at: usize, own: Own| if (row + at).is_multiple_of(3) { Own::Missing } else { own };
    [
        kept(0, Own::Text(format!("flow, \"{row}\""))),
        Own::Integer(-(row as i64)),
        kept(2, Own::Number(row as f64 / 3.0)),
        kept(3, Own::Flag(row.is_multiple_of(2))),
    ]
}

#[test]
fn every_value_is_read_as_it_was_written_over_several_groups() {
    let directory = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        let rows = ROWS_PER_GROUP + 10;
        let path = table(&directory, format, rows);
        let mut count = 0;
        read(&path, &COLUMNS, |row| {
            let wanted = cells(count);
            assert_eq!(row, wanted.each_ref().map(Own::as_cell), "row {count} of {}", format.name());
            count += 1;
        })
        .unwrap();
        assert_eq!(count, rows);
        // Some columns, in another order.
        let mut first = None;
        let some = [("best", Kind::Flag), ("n", Kind::Integer)];
        read(&path, &some, |row| {
            first = first.or(Some((row[0] == Cell::Missing, row[1] == Cell::Integer(0))))
        })
        .unwrap();
        assert_eq!(first, Some((true, true)));
    }
}

#[test]
fn a_fault_is_named_with_the_file_and_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let fault =
        |path: &PathBuf, columns: &[(&str, Kind)]| read(path, columns, |_| {}).unwrap_err().to_string();
    for format in Format::ALL {
        let path = table(&directory, format, 3);
        let name = path.display().to_string();
        let missing = fault(&path, &[("rtt", Kind::Integer)]);
        assert!(missing.starts_with(&name) && missing.ends_with("it has no column `rtt`"), "{missing}");
        let mistyped = fault(&path, &[("name", Kind::Integer)]);
        assert!(mistyped.ends_with("column `name` is not a whole number"), "{mistyped}");
        // Half of a file.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        if format != Format::Csv {
            assert!(fault(&path, &COLUMNS).starts_with(&name));
        }
    }
    let none = fault(&directory.path().join("none.csv"), &COLUMNS);
    assert!(none.contains("none.csv: cannot read it"), "{none}");
    assert!(fault(&directory.path().join("x.txt"), &COLUMNS).contains("does not end in"));
}

/// A spreadsheet runs a cell that begins with one of these; a number is only a number.
#[test]
fn no_text_of_csv_is_a_formula_and_each_is_read_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let texts = [
        "=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-1", "'-5", "-5", "+1e3", "-", "it's", "'",
        "plain",
    ];
    let written = [
        "'=1+1",
        "'+1+1",
        "'-2+3",
        "'@SUM(A1)",
        "'\t=1",
        "''=1",
        "'''-1",
        "''-5",
        "-5",
        "+1e3",
        "'-",
        "it's",
        "'",
        "plain",
    ];
    let columns = [Column::new("name", Kind::Text), Column::new("x", Kind::Number)];
    let mut table = Table::new(Vec::new(), Format::Csv, &columns).unwrap();
    for text in texts {
        table.row(&[Cell::Text(text), Cell::Number(-0.5)]).unwrap();
    }
    let bytes = table.finish().unwrap();
    let mut records = csv::Reader::from_reader(&bytes[..]);
    let cells: Vec<_> = records.records().map(|record| record.unwrap()).collect();
    assert_eq!(cells.iter().map(|record| &record[0]).collect::<Vec<_>>(), written);
    assert!(cells.iter().all(|record| &record[1] == "-0.5"));
    let path = directory.path().join("x.csv");
    std::fs::write(&path, &bytes).unwrap();
    let mut found = Vec::new();
    read(&path, &[("name", Kind::Text)], |row| match row[0] {
        Cell::Text(text) => found.push(text.to_owned()),
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert_eq!(found, texts);
}
