//! `--vary`: a plan on the command line.

use core::fmt::Write as _;

use anabranch_lab::scenario::quoted;

/// Returns the text of the plan for `scenario` in which `vary` varies.
pub(crate) fn plan(scenario: &str, vary: &[String]) -> Result<String, String> {
    let mut text = format!("scenario = {}\n[vary]\n", quoted(scenario));
    for one in vary {
        let (key, values) = one.split_once('=').ok_or_else(|| {
            format!("--vary `{one}` has no `=`; write for example `path.1.rate=5..50 Mbit/s:10` or `path.2.rtt=10ms,40ms`")
        })?;
        let values = match values.split_once("..") {
            Some((from, rest)) => range(from.trim(), rest.trim()).ok_or_else(|| {
                format!("--vary `{one}`: a range is FROM..TO UNIT:STEPS[:log], such as `1..100 Mbit/s:5:log`")
            })?,
            None => {
                let items: Vec<String> = values.split(',').map(|value| literal(value.trim())).collect();
                format!("[{}]", items.join(", "))
            }
        };
        let _ = writeln!(text, "{} = {values}", quoted(key.trim()));
    }
    Ok(text)
}

/// Returns `FROM..TO UNIT:STEPS[:log]` as a table of a plan.
fn range(from: &str, rest: &str) -> Option<String> {
    let mut parts = rest.split(':').map(str::trim);
    let (to, steps, scale) = (parts.next()?, parts.next()?, parts.next());
    let steps: u32 = steps.parse().ok()?;
    let scale = match scale {
        None | Some("linear") => "linear",
        Some("log") => "log",
        Some(_) => return None,
    };
    if parts.next().is_some() {
        return None;
    }
    // `5..50 Mbit/s` has the unit once.
    let unit = to.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
    let from = match from.parse::<f64>() {
        Ok(_) => format!("{from}{unit}"),
        Err(_) => from.to_owned(),
    };
    Some(format!(
        "{{ from = {}, to = {}, steps = {steps}, scale = \"{scale}\" }}",
        literal(&from),
        literal(to)
    ))
}

/// Returns a value as TOML: numbers and truth values as they are, and else a text.
fn literal(value: &str) -> String {
    let bare = value.parse::<i64>().is_ok() || value.parse::<f64>().is_ok_and(f64::is_finite);
    if bare || value == "true" || value == "false" { value.to_owned() } else { quoted(value) }
}

#[cfg(test)]
mod tests {
    use super::plan;

    #[test]
    fn lists_and_ranges_become_a_plan() {
        let vary = ["path.1.rate=5..50 Mbit/s:10:log", "path.2.rtt=10ms,40ms", "traffic.flows=1..4:4"];
        let text = plan("two-paths", &vary.map(str::to_owned)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "scenario = \"two-paths\"",
                "[vary]",
                "\"path.1.rate\" = { from = \"5 Mbit/s\", to = \"50 Mbit/s\", steps = 10, scale = \"log\" }",
                "\"path.2.rtt\" = [\"10ms\", \"40ms\"]",
                "\"traffic.flows\" = { from = 1, to = 4, steps = 4, scale = \"linear\" }",
            ]
        );
        for wrong in
            ["path.1.rate", "path.1.rate=1..2", "path.1.rate=1..2 ms:x", "a=1..2:3:4:5", "a=1..2:3:cubic"]
        {
            assert!(plan("two-paths", &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
