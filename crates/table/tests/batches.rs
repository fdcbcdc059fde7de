//! Dense columns: rows by columns are the rows one by one, and the library's reader returns every value.

use anabranch_table::{Cell, Column, Format, Kind, ROWS_PER_GROUP, Table, Values};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::Field;

fn dense(kinds: &[(&str, Kind, bool)]) -> Vec<Column> {
    let column = |(name, kind, required): &(&str, Kind, bool)| {
        let column = Column::new(*name, *kind).dense();
        if *required { column.required() } else { column }
    };
    kinds.iter().map(column).collect()
}

fn open(bytes: Vec<u8>) -> SerializedFileReader<bytes::Bytes> {
    SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap()
}

/// Returns the fields of a table of one column.
fn fields(bytes: Vec<u8>) -> Vec<Field> {
    let rows = open(bytes).get_row_iter(None).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    rows.iter().map(|row| row.get_column_iter().next().unwrap().1.clone()).collect()
}

/// A sequence of numbers that looks random.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 29)
    }
}

#[test]
fn rows_by_columns_are_the_rows_one_by_one() {
    let columns = dense(&[
        ("t_ns", Kind::Integer, true),
        ("edge_bytes", Kind::Integer, false),
        ("event", Kind::Text, true),
        ("reason", Kind::Text, false),
        ("score", Kind::Number, false),
        ("best", Kind::Number, true),
    ]);
    let texts: [Box<str>; 3] = ["sent".into(), "a, \"b\"".into(), "lost".into()];
    let rows = ROWS_PER_GROUP + 700;
    let mut mix = Mix(1);
    let times: Vec<i64> = (0..rows as i64).map(|row| row * 80 - 9).collect();
    let edges: Vec<i64> = (0..rows)
        .map(|_| if mix.next().is_multiple_of(3) { Values::MISSING } else { mix.next() as i64 >> 20 })
        .collect();
    let events: Vec<u32> = (0..rows).map(|_| (mix.next() % 3) as u32).collect();
    let reasons: Vec<u32> = (0..rows).map(|row| if row % 300 < 9 { 2 } else { 3 }).collect();
    let scores: Vec<f64> = (0..rows).map(|row| if row % 2 == 0 { f64::NAN } else { row as f64 }).collect();
    let bests: Vec<f64> = (0..rows).map(|row| (row / 5 % 9) as f64).collect();

    for format in Format::ALL {
        let mut one_by_one = Table::new(Vec::new(), format, &columns).unwrap();
        for row in 0..rows {
            let cells = [
                Cell::Integer(times[row]),
                Some(edges[row]).filter(|edge| *edge != Values::MISSING).map_or(Cell::Missing, Cell::Integer),
                Cell::Text(&texts[events[row] as usize]),
                texts.get(reasons[row] as usize).map(|text| &**text).into(),
                Some(scores[row]).filter(|score| !score.is_nan()).into(),
                Cell::Number(bests[row]),
            ];
            one_by_one.row(&cells).unwrap();
        }
        let one_by_one = one_by_one.finish().unwrap();

        // Batches of many sizes, of which some end at a group of rows and some do not.
        for sizes in [&[256][..], &[1, 0, 7, 255, 300, 64], &[rows]] {
            let mut by_columns = Table::new(Vec::new(), format, &columns).unwrap();
            let mut sizes = sizes.iter().cycle();
            let mut done = 0;
            while done < rows {
                let part = done..rows.min(done + sizes.next().unwrap());
                done = part.end;
                let values = [
                    Values::Integers(&times[part.clone()]),
                    Values::Integers(&edges[part.clone()]),
                    Values::Texts(&texts, &events[part.clone()]),
                    Values::Texts(&texts, &reasons[part.clone()]),
                    Values::Numbers(&scores[part.clone()]),
                    Values::Numbers(&bests[part]),
                ];
                by_columns.rows(&values).unwrap();
            }
            assert!(by_columns.finish().unwrap() == one_by_one, "{}", format.name());
        }
    }
}

#[test]
fn whole_numbers_of_all_widths_are_read_as_they_were_written() {
    let columns = dense(&[("n", Kind::Integer, true)]);
    let mut mix = Mix(2);
    // Shifts give differences of all widths; both ends of the range give differences that wrap.
    let mut sequences: Vec<Vec<i64>> =
        (0..64).map(|shift| (0..500).map(|_| mix.next() as i64 >> shift).collect()).collect();
    sequences.extend((0..=64).map(|width| {
        let bits = u64::MAX.checked_shr(64 - width).unwrap_or(0);
        (0..300).map(|at| if at % 2 == 0 { bits as i64 } else { 0 }).collect()
    }));
    let ends = [i64::MIN + 1, i64::MAX, 0, i64::MAX, i64::MIN + 1, -1, 1];
    sequences.push((0..1000).map(|at| ends[at % ends.len()]).collect());
    sequences.push(vec![7; 1000]);
    for length in [0, 1, 2, 63, 64, 65, 66, 128, 129, 255, 256, 257, 258, 512, 513, 514] {
        sequences.push((0..length).map(|_| mix.next() as i64 >> 40).collect());
    }
    for numbers in sequences {
        let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
        numbers.chunks(100).for_each(|part| table.rows(&[Values::Integers(part)]).unwrap());
        let wanted: Vec<Field> = numbers.iter().map(|number| Field::Long(*number)).collect();
        assert_eq!(fields(table.finish().unwrap()), wanted, "{:?}", &numbers[..numbers.len().min(8)]);
    }
    // The least number of all is missing in a batch, and a number in a row.
    let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
    table.row(&[Cell::Integer(i64::MIN)]).unwrap();
    assert_eq!(fields(table.finish().unwrap()), [Field::Long(i64::MIN)]);
}

#[test]
fn missing_values_are_those_that_were_missing() {
    let columns = dense(&[("n", Kind::Integer, false)]);
    let mut mix = Mix(3);
    type Missing = Box<dyn FnMut(usize) -> bool>;
    let patterns: Vec<Missing> = vec![
        Box::new(|_| true),
        Box::new(|_| false),
        Box::new(|row| row > 0),
        Box::new(|row| row == 0),
        Box::new(|row| row / 100 % 2 == 0),
        Box::new(|row| row / 37 % 2 == 0),
        Box::new(|row| row % 1000 == 999),
        Box::new(move |_| mix.next().is_multiple_of(2)),
    ];
    for (number, mut missing) in patterns.into_iter().enumerate() {
        for rows in [1, 7, 8, 9, 31, 32, 33, 1000, 1001] {
            let value = |row: usize| if missing(row) { Values::MISSING } else { row as i64 };
            let values: Vec<i64> = (0..rows).map(value).collect();
            let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
            values.chunks(77).for_each(|part| table.rows(&[Values::Integers(part)]).unwrap());
            let wanted = values.iter().map(|value| match *value {
                Values::MISSING => Field::Null,
                value => Field::Long(value),
            });
            let read = fields(table.finish().unwrap());
            assert_eq!(read, wanted.collect::<Vec<_>>(), "pattern {number}, {rows} rows");
        }
    }
}

#[test]
fn numbers_are_the_same_with_and_without_a_dictionary() {
    let columns = dense(&[("score", Kind::Number, true)]);
    for different in [1, 2, 50, 300, 20_000] {
        let value = |row: usize| (row % different) as f64 / 7.0 - 1.0;
        let values: Vec<f64> = (0..20_000).map(value).chain([-0.0, 0.0, f64::INFINITY]).collect();
        let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
        table.rows(&[Values::Numbers(&values)]).unwrap();
        let bytes = table.finish().unwrap();
        // Two bytes for a number if there are few.
        assert!(different > 300 || bytes.len() < 2 * values.len() + 5000, "{different}: {}", bytes.len());
        let bits = |field: &Field| match field {
            Field::Double(number) => number.to_bits(),
            _ => panic!("{field:?}"),
        };
        let read: Vec<u64> = fields(bytes).iter().map(bits).collect();
        assert_eq!(read, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), "{different}");
    }
}

#[test]
fn a_group_has_the_bounds_of_its_whole_numbers() {
    let columns = dense(&[("t_ns", Kind::Integer, true), ("edge_bytes", Kind::Integer, false)]);
    let mut table = Table::new(Vec::new(), Format::Parquet, &columns).unwrap();
    let rows = ROWS_PER_GROUP as i64 + 3;
    for t in 0..rows {
        let edge = if t % 4 == 0 { Values::MISSING } else { 5 - t };
        table.rows(&[Values::Integers(&[t]), Values::Integers(&[edge])]).unwrap();
    }
    let reader = open(table.finish().unwrap());
    let bounds = |group: usize, column: usize| {
        let group = reader.metadata().row_group(group);
        let Some(Statistics::Int64(bounds)) = group.column(column).statistics() else { panic!("none") };
        (*bounds.min_opt().unwrap(), *bounds.max_opt().unwrap(), bounds.null_count_opt().unwrap())
    };
    let first = ROWS_PER_GROUP as i64;
    assert_eq!(bounds(0, 0), (0, first - 1, 0));
    assert_eq!(bounds(1, 0), (first, rows - 1, 0));
    assert_eq!(bounds(0, 1), (5 - (first - 1), 4, ROWS_PER_GROUP as u64 / 4));
    assert_eq!(bounds(1, 1), (5 - (rows - 1), 5 - (first + 1), 1));
}

#[test]
fn values_that_do_not_fit_their_columns_are_refused_and_leave_nothing() {
    let columns =
        dense(&[("t_ns", Kind::Integer, true), ("event", Kind::Text, true), ("score", Kind::Number, true)]);
    let texts: [Box<str>; 1] = ["sent".into()];
    let (time, event, score) =
        (Values::Integers(&[1, 2]), Values::Texts(&texts, &[0, 0]), Values::Numbers(&[0.5, 1.0]));
    let wrong = [
        (vec![time, event], "values of 2 columns for 3"),
        (vec![time, Values::Texts(&texts, &[0]), score], "1 values of column `event` for 2 rows"),
        (vec![event, time, score], "a value of column `t_ns` is missing or has another type"),
        (
            vec![Values::Integers(&[1, Values::MISSING]), event, score],
            "a value of column `t_ns` is missing or has another type",
        ),
        (
            vec![time, Values::Texts(&texts, &[0, 1]), score],
            "a value of column `event` is missing or has another type",
        ),
        (
            vec![time, event, Values::Numbers(&[f64::NAN, 1.0])],
            "a value of column `score` is missing or has another type",
        ),
    ];
    for format in Format::ALL {
        let table = || Table::new(Vec::new(), format, &columns).unwrap();
        let (mut tried, mut plain) = (table(), table());
        for (values, message) in &wrong {
            assert_eq!(tried.rows(values).unwrap_err().to_string(), *message);
            tried.rows(&[time, event, score]).unwrap();
            plain.rows(&[time, event, score]).unwrap();
        }
        assert!(tried.finish().unwrap() == plain.finish().unwrap(), "{}", format.name());
    }
}
