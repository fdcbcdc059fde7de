//! The events of `tracing` on standard error: the log of a proxy, as text or as JSON.

use std::io::Write;
use std::sync::OnceLock;

use tracing::{Level, error, info, warn};
use tracing_subscriber::fmt::MakeWriter;

use super::log::Log;
use crate::output::{self, Weight};

/// The format of the log.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One line for people
    Text,
    /// One object of JSON a line
    Json,
}

/// The log, from which a thread writes.
static LOG: OnceLock<(Log, Format)> = OnceLock::new();

/// Writes the whole lines of the subscriber.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if let Some((log, format)) = LOG.get() {
            let text = String::from_utf8_lossy(line);
            match format {
                Format::Text => log.say(text.trim_end()),
                Format::Json => log.json(text.trim_end()),
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines
    }
}

/// From now on, writes the events, and all remarks, warnings and errors of this process, to standard error in this format.
pub(crate) fn begin(format: Format) {
    let log = if format == Format::Json { Log::of_json() } else { Log::new(false) };
    if LOG.set((log, format)).is_err() {
        return;
    }
    let most = if output::is_quiet() { Level::WARN } else { Level::INFO };
    let builder =
        tracing_subscriber::fmt().with_ansi(false).with_max_level(most).with_target(false).with_writer(Lines);
    match format {
        Format::Text => builder.init(),
        Format::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
        }
    }
    output::set_sink(|weight, text| match weight {
        Weight::Remark => info!("{text}"),
        Weight::Warning => warn!("{text}"),
        Weight::Error => {
            error!("{text}");
            end();
        }
    });
}

/// Waits briefly until all events are written.
pub(crate) fn end() {
    if let Some((log, _)) = LOG.get() {
        log.end();
    }
}
