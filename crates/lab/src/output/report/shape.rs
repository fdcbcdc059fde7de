//! The values of `compare --json` and `explain --json` that the page of a report reads, and their types.

use serde_json::Value;

/// The type of a value.
enum Form {
    Text,
    Number,
    Flag,
    /// A number or a text.
    Seed,
    /// Two numbers.
    Interval,
    /// The form, or null.
    Maybe(&'static Form),
    /// The form; the key may be absent.
    Optional(&'static Form),
    List(&'static Form),
    /// These keys, and others.
    Table(&'static [(&'static str, Form)]),
    /// Any keys with numbers, or with true or false.
    Settings,
}

use Form::{Flag, Interval, List, Maybe, Number, Optional, Seed, Settings, Table, Text};

const NUMBER: Form = Maybe(&Number);
const NAME: Form = Maybe(&Text);
const DIFFERENCE: Form = Table(&[("mean", NUMBER), ("ci95", Maybe(&Interval))]);

/// Where both come from.
const ORIGIN: Form = Table(&[
    ("version", Text),
    ("commit", NAME),
    ("command", List(&Text)),
    ("scenario_hash", Text),
    ("seed", Seed),
    ("runs", Number),
]);

/// `compare --json`.
const COMPARISON: Form = Table(&[
    ("reference", NAME),
    ("min_effect_pct", Number),
    ("verdict", Text),
    (
        "verdicts",
        List(&Table(&[
            ("condition", Text),
            ("traffic", Optional(&Text)),
            ("measure", Text),
            ("outcome", Text),
        ])),
    ),
    ("rows", List(&ROW)),
    ("fairness_verdict", NAME),
    (
        "fairness",
        List(&Table(&[
            ("condition", Text),
            ("scheduler", Text),
            ("jain", Maybe(&DIFFERENCE)),
            ("parties", List(&PARTY)),
            ("flows", List(&PARTY)),
        ])),
    ),
    ("conditions", List(&CONDITION)),
]);

const ROW: Form = Table(&[
    ("scheduler", Text),
    ("congestion", Text),
    ("condition", Text),
    ("path", NAME),
    ("n", Number),
    ("completed", Number),
    (
        "fct_s",
        Table(&[
            ("mean", NUMBER),
            ("p50", NUMBER),
            ("p95", NUMBER),
            ("p99", NUMBER),
            ("ci95", Maybe(&Interval)),
        ]),
    ),
    ("goodput_bps", NUMBER),
    ("goodput_ci95_bps", Maybe(&Interval)),
    ("vs_reference_pct", Maybe(&DIFFERENCE)),
    ("retransmitted_ratio", NUMBER),
    ("reinjected_ratio", NUMBER),
    ("rto_count", NUMBER),
    ("failed", Optional(&Number)),
    ("longest_gap_s", Optional(&Table(&[("mean", NUMBER)]))),
    ("subflows_used", NUMBER),
    ("bytes_by_path", List(&Number)),
    ("lower_bound_s", NUMBER),
    ("vs_lower_bound", NUMBER),
    (
        "by_run",
        Table(&[("completed", List(&Number)), ("fct_s", List(&NUMBER)), ("goodput_bps", List(&NUMBER))]),
    ),
    ("traffic", Optional(&Text)),
    ("kind", Optional(&Text)),
    ("transport", Optional(&Text)),
    (
        "video",
        Optional(&Table(&[
            ("startup_s", Table(&[("mean", NUMBER)])),
            ("stalls", NUMBER),
            ("stalled_s", NUMBER),
            ("bitrate_bps", NUMBER),
            ("switches", NUMBER),
        ])),
    ),
    (
        "datagrams",
        Optional(&Table(&[
            ("sent", NUMBER),
            ("received", NUMBER),
            ("lost_ratio", NUMBER),
            ("delay_p50_s", NUMBER),
            ("delay_p95_s", NUMBER),
            ("delay_p99_s", NUMBER),
            ("delay_max_s", NUMBER),
            ("jitter_s", NUMBER),
        ])),
    ),
]);

const PARTY: Form = Table(&[
    ("scheduler", Text),
    ("flow", NUMBER),
    ("flows", Number),
    ("goodput_bps", Maybe(&DIFFERENCE)),
    ("share_pct", NUMBER),
    ("fair_share_pct", NUMBER),
    ("vs_fair_pct", Maybe(&DIFFERENCE)),
    ("balance", Text),
]);

const CONDITION: Form = Table(&[
    ("name", Text),
    ("paths", List(&Text)),
    ("profile", Text),
    ("direction", Text),
    ("queues", List(&Text)),
    ("initial", Text),
    ("initial_choice", Text),
    ("phases", Maybe(&Settings)),
    ("ideal_sum_bps", NUMBER),
    (
        "other_starts",
        List(&Table(&[
            ("path", Text),
            ("runs", Number),
            ("changes", List(&Table(&[("scheduler", Text), ("difference_pct", Maybe(&DIFFERENCE))]))),
        ])),
    ),
]);

/// `explain --json`.
const EXPLANATION: Form = Table(&[
    ("flow", NUMBER),
    (
        "rows",
        List(&Table(&[
            ("scheduler", Text),
            ("condition", Text),
            ("path", NAME),
            ("n", Number),
            ("completed", Number),
            ("mean_s", NUMBER),
            ("parts", List(&Table(&[("cause", Text), ("mean_s", Number), ("share_pct", Number)]))),
            ("longest_gap_s", Optional(&NUMBER)),
            (
                "outages",
                Optional(&List(&Table(&[
                    ("path", Text),
                    ("from_s", Number),
                    ("until_s", NUMBER),
                    ("mean_s", Number),
                ]))),
            ),
            ("changes", List(&Table(&[("what", Text), ("effect_pct", DIFFERENCE), ("helps", Maybe(&Flag))]))),
            ("sentence", Text),
        ])),
    ),
]);

/// Checks the object of a comparison.
///
/// # Errors
/// With the place of the first value that has another type, or is missing.
pub(super) fn check_comparison(value: &Value) -> Result<(), String> {
    ORIGIN.check(value, "").and_then(|()| COMPARISON.check(value, ""))
}

/// Checks the object of an explanation.
///
/// # Errors
/// As [`check_comparison`].
pub(super) fn check_explanation(value: &Value) -> Result<(), String> {
    ORIGIN.check(value, "").and_then(|()| EXPLANATION.check(value, ""))
}

impl Form {
    const fn words(&self) -> &'static str {
        match self {
            Text => "a text",
            Number => "a number",
            Flag => "true or false",
            Seed => "a number or a text",
            Interval => "two numbers",
            Maybe(of) | Optional(of) => of.words(),
            List(_) => "a list",
            Table(_) | Settings => "an object",
        }
    }

    fn check(&self, value: &Value, place: &str) -> Result<(), String> {
        let is_right = match self {
            Text => value.is_string(),
            Number => value.is_number(),
            Flag => value.is_boolean(),
            Seed => value.is_number() || value.is_string(),
            Interval => {
                value.as_array().is_some_and(|two| two.len() == 2 && two.iter().all(Value::is_number))
            }
            Maybe(_) if value.is_null() => true,
            Maybe(of) | Optional(of) => return of.check(value, place),
            List(of) => {
                let items = value.as_array();
                for (at, item) in items.into_iter().flatten().enumerate() {
                    of.check(item, &format!("{place}[{at}]"))?;
                }
                items.is_some()
            }
            Table(keys) => {
                let table = value.as_object();
                for (key, form) in keys.iter().filter(|_| table.is_some()) {
                    let place = if place.is_empty() { (*key).to_owned() } else { format!("{place}.{key}") };
                    match (value.get(key), form) {
                        (Some(value), form) => form.check(value, &place)?,
                        (None, Optional(_)) => {}
                        (None, _) => return Err(format!("it has no `{place}`")),
                    }
                }
                table.is_some()
            }
            Settings => value
                .as_object()
                .is_some_and(|table| table.values().all(|value| value.is_number() || value.is_boolean())),
        };
        if is_right {
            return Ok(());
        }
        let mut found = value.to_string();
        if found.chars().count() > 40 {
            found = found.chars().take(40).chain(['.'; 3]).collect();
        }
        Err(format!("`{place}` is {found}, not {}", self.words()))
    }
}
