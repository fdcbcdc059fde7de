//! Text tables.

use crate::terminal::columns;
use crate::visible;

/// The alignment of a cell's text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Aligned on the left edge of the column.
    Left,
    /// Aligned on the right edge of the column.
    Right,
    /// Numbers are aligned on their decimal points, and other text on the right.
    Decimal,
}

struct Column {
    title: String,
    align: Align,
    /// Columns with a higher number are omitted first.
    rank: u8,
    /// True if long cells continue on the next line.
    wrapped: bool,
    /// True if it is not shown.
    hidden: bool,
}

/// Columns and rows of text, which may be coloured.
#[derive(Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// The space between two columns.
const GAP: usize = 2;
/// The least width of a wrapped column.
const LEAST: usize = 10;

impl Table {
    /// Returns a table without columns.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a column that is never omitted.
    pub fn column(self, title: &str, align: Align) -> Table {
        self.optional(title, align, 0)
    }

    /// Adds a column that is omitted if the table is too wide. Columns with the highest `rank` are omitted first.
    pub fn optional(mut self, title: &str, align: Align, rank: u8) -> Table {
        let title = visible::line(title).into_owned();
        self.columns.push(Column { title, align, rank, wrapped: false, hidden: false });
        self
    }

    /// Adds a column of words, which are wrapped if the table is too wide.
    pub fn wrapped(mut self, title: &str) -> Table {
        self.columns.push(Column {
            title: title.to_owned(),
            align: Align::Left,
            rank: 0,
            wrapped: true,
            hidden: false,
        });
        self
    }

    /// Adds a column that is shown only if `shown`, and otherwise like [`Table::optional`].
    pub fn shown_if(self, shown: bool, title: &str, align: Align, rank: u8) -> Table {
        let mut table = self.optional(title, align, rank);
        table.columns.iter_mut().rev().take(1).for_each(|column| column.hidden = !shown);
        table
    }

    /// Adds a row, which has a cell for every column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        // A line break in a name would break the table; the words of a wrapped cell may be separated by one.
        let show = |(cell, column): (&String, &Column)| match column.wrapped {
            true => visible::lines(cell).into_owned(),
            false => visible::line(cell).into_owned(),
        };
        self.rows.push(cells.iter().zip(&self.columns).map(show).collect());
    }

    /// Returns the table, at most `width` columns of text wide if omitting columns and wrapping suffice.
    pub fn render(&self, width: usize) -> String {
        let mut rows = self.rows.clone();
        for (at, column) in self.columns.iter().enumerate() {
            if column.align == Align::Decimal {
                align_decimals(&mut rows, at);
            }
        }
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell));
                cells.max().unwrap_or(0).max(columns(&self.columns[column].title))
            })
            .collect();
        let shown = self.fit(&mut widths, width);
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.clone()).collect();
        let mut text = String::new();
        for row in core::iter::once(&titles).chain(&rows) {
            let cells: Vec<Vec<String>> = shown
                .iter()
                .map(|&column| {
                    let cell = row.get(column).map_or("", String::as_str);
                    match self.columns[column].wrapped {
                        true => cell_lines(cell, widths[column]),
                        false => vec![cell.to_owned()],
                    }
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut out = String::new();
                for (&column, cell) in shown.iter().zip(&cells) {
                    let cell = cell.get(line).map_or("", String::as_str);
                    let pad = " ".repeat(widths[column].saturating_sub(columns(cell)));
                    let gap = " ".repeat(GAP);
                    match self.columns[column].align {
                        Align::Left => out.push_str(&format!("{cell}{pad}{gap}")),
                        Align::Right | Align::Decimal => out.push_str(&format!("{pad}{cell}{gap}")),
                    }
                }
                text.push_str(out.trim_end());
                text.push('\n');
            }
        }
        text
    }

    /// Returns the columns to show, and sets their widths.
    fn fit(&self, widths: &mut [usize], width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> =
            (0..self.columns.len()).filter(|column| !self.columns[*column].hidden).collect();
        // Wrapped columns count with their least width here.
        let least = |column: usize, widths: &[usize]| match self.columns[column].wrapped {
            true => widths[column].min(LEAST),
            false => widths[column],
        };
        let total = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|&column| least(column, widths) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while total(&shown, widths) > width {
            let worst = shown.iter().enumerate().max_by_key(|(_, column)| self.columns[**column].rank);
            match worst {
                Some((place, column)) if self.columns[*column].rank > 0 => {
                    shown.remove(place);
                }
                _ => break,
            }
        }
        let mut free = width.saturating_sub(total(&shown, widths));
        // By column: its width, and its missing width. The column that lacks most is widened next.
        let wrapped = shown.iter().filter(|column| self.columns[**column].wrapped);
        let mut wanting: Vec<(usize, usize, usize)> = wrapped
            .map(|&column| (column, least(column, widths), widths[column] - least(column, widths)))
            .collect();
        while let Some(most) = wanting.iter_mut().max_by_key(|(_, _, lacks)| *lacks)
            && free > 0
            && most.2 > 0
        {
            most.1 += 1;
            most.2 -= 1;
            free -= 1;
        }
        for (column, own, _) in wanting {
            widths[column] = own;
        }
        shown
    }
}

/// Pads the numbers of a column so that right-aligned cells have their decimal points below one another.
fn align_decimals(rows: &mut [Vec<String>], column: usize) {
    let decimals = |cell: &str| {
        let plain = anstream::adapter::strip_str(cell).to_string();
        let number = plain == "-" || plain.parse::<f64>().is_ok();
        number.then(|| plain.find('.').map_or(0, |at| plain.len() - at))
    };
    let cells = || rows.iter().filter_map(|row| row.get(column));
    let most = cells().filter_map(|cell| decimals(cell)).max().unwrap_or(0);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        if let Some(own) = decimals(cell) {
            cell.push_str(&" ".repeat(most - own));
        }
    }
}

/// Returns the lines of a wrapped cell; a word that does not fit is split.
fn cell_lines(cell: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in wrap(cell, width).lines() {
        let mut line: Vec<char> = line.chars().collect();
        while line.len() > width.max(1) {
            let rest = line.split_off(width.max(1));
            lines.push(line.into_iter().collect());
            line = rest;
        }
        lines.push(line.into_iter().collect());
    }
    lines
}

/// Wraps `text` into lines of at most `width` columns.
pub fn wrap(text: &str, width: usize) -> String {
    wrap_behind("", text, width)
}

/// Returns statements, one a line, in lines of at most `width` columns; several have bullets.
pub fn statements(text: &str, width: usize) -> String {
    let bullet = if text.lines().count() > 1 { "* " } else { "" };
    text.lines().map(|line| wrap_behind(bullet, line, width)).collect()
}

/// Wraps `text` into lines of at most `width` columns. The first line begins with `head`, and the others
/// with as much space. A number and its per cent sign stay together.
pub fn wrap_behind(head: &str, text: &str, width: usize) -> String {
    let mut lines = head.to_owned();
    let indent = columns(head);
    let mut column = 0;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        while let Some(sign) = words.next_if(|next| next.starts_with('%')) {
            word = format!("{word} {sign}");
        }
        let length = columns(&word);
        if column > 0 && indent + column + 1 + length > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(&word);
        column += length;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{GOOD, paint};

    #[test]
    fn columns_are_aligned_and_the_least_important_left_out() {
        let mut table = Table::new().column("name", Align::Left).optional("a", Align::Right, 2).optional(
            "b",
            Align::Right,
            1,
        );
        table.row(vec!["x".into(), "10.0".into(), "1".into()]);
        assert_eq!(table.render(80), "name     a  b\nx     10.0  1\n");
        assert_eq!(table.render(10), "name  b\nx     1\n");
        assert_eq!(table.render(1), "name\nx\n");
    }

    #[test]
    fn numbers_stand_on_their_decimal_points() {
        let mut table = Table::new().column("ms", Align::Decimal).column("end", Align::Left);
        for cell in ["1497", "12.3", "0.123", "-", "broken off", "-4.00"] {
            table.row(vec![cell.into(), "|".into()]);
        }
        let expected = "         ms  end
   1497      |
     12.3    |
      0.123  |
      -      |
 broken off  |
     -4.00   |
";
        let expected: String = expected.lines().map(|line| format!("{}\n", &line[1..])).collect();
        assert_eq!(table.render(80), expected);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::new().column("a", Align::Left).column("b", Align::Decimal);
        table.row(vec![paint(GOOD, "xy"), paint(GOOD, "1.5")]);
        table.row(vec!["z".into(), "10".into()]);
        let plain = anstream::adapter::strip_str(&table.render(80)).to_string();
        assert_eq!(plain, "a      b\nxy   1.5\nz   10\n");
    }

    #[test]
    fn a_wrapped_column_takes_the_width_that_is_left() {
        let mut table = Table::new().column("name", Align::Left).wrapped("what it is");
        table.row(vec!["x".into(), "one two three four five six".into()]);
        assert_eq!(table.render(80), "name  what it is\nx     one two three four five six\n");
        assert_eq!(table.render(28), "name  what it is\nx     one two three four\n      five six\n");
        assert!(table.render(3).lines().all(|line| line.len() <= 6 + LEAST));
        let mut table = Table::new().wrapped("one").wrapped("other");
        table.row(vec!["abcdefghijklmn".into(), "a b c d e f g h i j k l".into()]);
        assert_eq!(table.render(24), "one         other\nabcdefghij  a b c d e f\nklmn        g h i j k l\n");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrap("one two  three", 8), "one two\nthree\n");
        assert_eq!(wrap("one 2 % three", 6), "one\n2 %\nthree\n");
        assert_eq!(wrap_behind("a  ", "one two", 8), "a  one\n   two\n");
    }
}
