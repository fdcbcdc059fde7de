//! Texts of a chart: their widths, and lines that fit.

/// Returns about the width of a text in a sans-serif font.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    let one = |c: char| match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | '!' | 'I' => 0.3,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '-' | '/' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
        c if c.is_uppercase() => 0.7,
        _ => 0.58,
    };
    text.chars().map(one).sum::<f64>() * size
}

/// Returns `text` shortened to a width.
pub(super) fn shortened(text: &str, size: f64, width: f64) -> String {
    if width_of(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if width_of(&kept, size) + width_of("m…", size) > width {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML has no way to write these.
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns `text` in lines of a width.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + 0.3 * size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns a label in lines of at most `length`, divided at spaces and in long keys after dots; a longer part is a line.
pub(super) fn upright(label: &str, size: f64, length: f64) -> Vec<String> {
    if label.is_empty() || width_of(label, size) <= length {
        return Some(label.to_owned()).filter(|label| !label.is_empty()).into_iter().collect();
    }
    let mut lines: Vec<String> = Vec::new();
    for line in wrapped(label, size, length) {
        if width_of(&line, size) <= length {
            lines.push(line);
            continue;
        }
        let mut begun = String::new();
        for part in line.split_inclusive(['.', ' ']) {
            if !begun.is_empty() && width_of(&begun, size) + width_of(part, size) > length {
                lines.push(std::mem::take(&mut begun));
            }
            begun.push_str(part);
        }
        lines.push(begun);
    }
    lines
}
