//! docs/recording.md has the tables as they are.

use anabranch_recording::schema::{SCHEMA, TABLES, markdown};

const PAGE: &str = include_str!("../../../docs/recording.md");

#[test]
fn the_page_has_every_table_and_column() {
    let wanted = markdown();
    assert!(PAGE.contains(wanted.trim_end()), "docs/recording.md should contain:\n{wanted}");
    assert!(PAGE.contains(&format!("the version of the tables and of these keys, {SCHEMA} |")));
}

#[test]
fn columns_with_a_quantity_carry_its_unit() {
    let units = ["_ns", "_us", "_bytes", "_bps", "_packets"];
    let plain = [
        "flow",
        "subflow",
        "interface",
        "bytes_",
        "segments_",
        "data_segments",
        "retransmitted_segments",
        "rto_count",
    ];
    for table in &TABLES {
        for column in table.columns.iter().filter(|column| column.kind == anabranch_table::Kind::Integer) {
            let known = units.iter().any(|unit| column.name.ends_with(unit))
                || plain.iter().any(|name| column.name.starts_with(name));
            assert!(known, "{}.{}", table.name, column.name);
        }
    }
}
