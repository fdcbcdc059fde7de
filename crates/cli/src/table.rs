//! Tables for people.

/// Where a cell's text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A column.
struct Column {
    title: String,
    align: Align,
    /// Columns of a higher number are the first to be left out.
    rank: u8,
}

/// Columns and rows of text.
#[derive(Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a column that is never left out.
    pub fn column(self, title: &str, align: Align) -> Table {
        self.optional(title, align, 0)
    }

    /// Adds a column that is left out, those of the highest `rank` first, if the table is too wide.
    pub fn optional(mut self, title: &str, align: Align, rank: u8) -> Table {
        self.columns.push(Column { title: title.to_owned(), align, rank });
        self
    }

    /// Adds a row, which has a cell for every column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table, at most `width` characters wide if leaving out columns can make it so.
    pub fn render(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells =
                    self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0).max(self.columns[column].title.chars().count())
            })
            .collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let total =
            |shown: &[usize]| shown.iter().map(|column| widths[*column] + 2).sum::<usize>().saturating_sub(2);
        while total(&shown) > width {
            let worst = shown.iter().enumerate().max_by_key(|(_, column)| self.columns[**column].rank);
            match worst {
                Some((place, column)) if self.columns[*column].rank > 0 => {
                    shown.remove(place);
                }
                _ => break,
            }
        }
        let mut text = String::new();
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.clone()).collect();
        for row in core::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for column in &shown {
                let cell = row.get(*column).map_or("", String::as_str);
                let pad = " ".repeat(widths[*column] - cell.chars().count());
                match self.columns[*column].align {
                    Align::Left => line.push_str(&format!("{cell}{pad}  ")),
                    Align::Right => line.push_str(&format!("{pad}{cell}  ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// `text` in lines of at most `width` characters.
pub fn wrap(text: &str, width: usize) -> String {
    wrap_behind("", text, width)
}

/// `text` in lines of at most `width` characters, the first of which begins with `head`, and the
/// others with as much space. A number keeps its per cent sign.
pub fn wrap_behind(head: &str, text: &str, width: usize) -> String {
    let mut lines = head.to_owned();
    let indent = head.chars().count();
    let mut column = 0;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut word = word.to_owned();
        while let Some(sign) = words.next_if(|next| next.starts_with('%')) {
            word = format!("{word} {sign}");
        }
        let length = word.chars().count();
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
    fn words_are_wrapped() {
        assert_eq!(wrap("one two  three", 8), "one two\nthree\n");
        assert_eq!(wrap("one 2 % three", 6), "one\n2 %\nthree\n");
        assert_eq!(wrap_behind("a  ", "one two", 8), "a  one\n   two\n");
    }
}
