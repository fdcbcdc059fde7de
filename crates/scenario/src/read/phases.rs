//! Reads the phases of a scenario.

use crate::model::{PhaseChoice, Phases};
use crate::text::keys::{Keys, rows};
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::{Node, Value};

rows! {
    /// The keys of `[phases]`.
    pub(crate) ROWS, KEYS {
        "start": Time, "a flow starts at most this much later; default 0.5 ms";
        "join": Time, "a client opens further subflows at most this much later; default 0.2 ms";
        "delay": Time, "the delay of a path is at most this much longer or shorter; default 0.1 ms";
        "jitter": Time, "a packet arrives at most this much later; default 20 us";
        "traces": Bool, "whether traces without a `trace-start` begin at random points; default true";
    }
}
pub(super) const TABLE: Keys = Keys::new("phases", &[ROWS]);

/// Reads `phases`: true, false, or a table of limits.
pub(super) fn read(node: &Node) -> Result<PhaseChoice, Problem> {
    if !matches!(&node.value, Value::Table(_)) {
        return Ok(match node.boolean()? {
            true => PhaseChoice::On(Phases::default()),
            false => PhaseChoice::Off,
        });
    }
    let table = Reader::of(node, "phases", KEYS)?;
    let default = Phases::default();
    Ok(PhaseChoice::On(Phases {
        start: table.optional("start", Node::delay)?.unwrap_or(default.start),
        join: table.optional("join", Node::delay)?.unwrap_or(default.join),
        delay: table.optional("delay", Node::delay)?.unwrap_or(default.delay),
        jitter: table.optional("jitter", Node::delay)?.unwrap_or(default.jitter),
        traces: table.optional("traces", Node::boolean)?.unwrap_or(default.traces),
    }))
}
