//! Names in sentences.

/// Returns the name of a path in a sentence: a number has the noun before it.
pub(crate) fn spoken(name: &str) -> String {
    if name.parse::<u32>().is_ok() { format!("path {name}") } else { name.to_owned() }
}
