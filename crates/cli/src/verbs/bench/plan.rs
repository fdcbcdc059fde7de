//! The plan of a measurement.

use std::time::Duration;

use anabranch_lab::scenario::units;

use super::Args;
use crate::failure::Failure;
use crate::online::bench::{Hello, Limit, Mode};

/// The actions of the client, and the interval of its reports.
pub(super) struct Plan {
    pub hello: Hello,
    pub interval: Option<Duration>,
}

impl Plan {
    pub(super) fn of(args: &Args) -> Result<Plan, Failure> {
        let span = |text: &str, option: &str| {
            let span = units::parse_span(text);
            let span = span.map_err(|error| Failure::Usage(format!("{option}: {error}")))?;
            Ok::<_, Failure>(Duration::from_nanos(span.0))
        };
        let bytes = match &args.size {
            Some(text) => {
                let size = units::parse_size(text);
                let size = size.map_err(|error| Failure::Usage(format!("--size: {error}")))?.0;
                if size == 0 {
                    return Err(Failure::Usage(
                        "--size: 0 bytes cannot be measured; give at least `1 B`".to_owned(),
                    ));
                }
                Some(size)
            }
            None => None,
        };
        let duration = match (&args.time, bytes) {
            (Some(text), _) => Some(span(text, "--time")?),
            (None, None) => Some(Duration::from_secs(10)),
            (None, Some(_)) => None,
        };
        if duration.is_some_and(|duration| duration.is_zero()) {
            return Err(Failure::Usage("--time: no time is too short; give for example `10 s`".to_owned()));
        }
        let mode = match () {
            () if args.ping.is_some() => Mode::Ping,
            () if args.bidirectional => Mode::Both,
            () if args.reverse => Mode::Download,
            () => Mode::Upload,
        };
        let limit = if mode == Mode::Ping {
            Limit { duration: None, bytes: None }
        } else {
            Limit { duration, bytes }
        };
        let interval =
            if args.interval == "0" { Duration::ZERO } else { span(&args.interval, "--interval")? };
        let quiet = interval.is_zero() || mode == Mode::Ping;
        Ok(Plan { hello: Hello { mode, limit }, interval: (!quiet).then_some(interval) })
    }
}
