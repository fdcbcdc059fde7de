//! The settings of active queue management: what happens to packets that fit in the queue.

use core::fmt;

use anabranch_units::Duration;

use crate::QueueLimit;
use crate::error::{self, LinkConfigError};

/// The management of a link's queue. The queue limit applies to all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Aqm {
    /// First in, first out; only a packet that does not fit is dropped.
    #[default]
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993).
    Red(Red),
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// A queue for each flow, each with CoDel (RFC 8290).
    FqCodel(FqCodel),
}

/// The settings of CoDel, with the defaults of RFC 8289 section 5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// The acceptable minimum of the time in the queue. Default: 5 ms.
    pub target: Duration,
    /// The time for which the minimum must exceed the target; of the order of a round trip. Default: 100 ms.
    pub interval: Duration,
    /// True if packets of senders that support ECN are marked instead of dropped. Default: true.
    pub ecn: bool,
}

impl Default for Codel {
    fn default() -> Codel {
        Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true }
    }
}

/// The settings of FQ-CoDel, with the defaults of RFC 8290 section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodel {
    /// The settings of each queue.
    pub codel: Codel,
    /// The number of queues, to which flows are assigned by a hash of their addresses and ports. Default: 1024.
    pub queues: u32,
    /// The bytes that a queue may send in a turn. Default: 1514.
    pub quantum: u32,
}

impl Default for FqCodel {
    fn default() -> FqCodel {
        FqCodel { codel: Codel::default(), queues: 1024, quantum: 1514 }
    }
}

/// The settings of RED, with the values of the paper's simulations (section 5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// The average queue from which on packets are dropped or marked. With thresholds in packets the queue is
    /// measured in packets, otherwise in bytes. Default: 5 packets.
    pub min: QueueLimit,
    /// The average queue at which their share reaches `max_probability`. Default: 15 packets.
    pub max: QueueLimit,
    /// The share at the threshold `max`. Default: 0.02.
    pub max_probability: f64,
    /// The weight of one packet's queue in the average. Default: 0.002.
    pub weight: f64,
    /// True if the share then rises to 1 at twice `max`, rather than at once (Floyd, "Recommendation on using the
    /// gentle variant of RED", 2000). Default: true.
    pub gentle: bool,
    /// True if packets of senders that support ECN are marked instead of dropped. Where every packet is dropped,
    /// theirs are too, so that a sender that ignores marks cannot hold the queue there. Default: true.
    pub ecn: bool,
}

impl Default for Red {
    fn default() -> Red {
        Red {
            min: QueueLimit::Packets(5),
            max: QueueLimit::Packets(15),
            max_probability: 0.02,
            weight: 0.002,
            gentle: true,
            ecn: true,
        }
    }
}

impl Codel {
    fn check(&self) -> Result<(), LinkConfigError> {
        for (of, value) in [("target of CoDel", self.target), ("interval of CoDel", self.interval)] {
            error::check_span(of, value)?;
            if value.is_zero() {
                return Err(LinkConfigError::Aqm(format!("the {of} is 0; give for example 5 ms and 100 ms")));
            }
        }
        Ok(())
    }
}

impl Red {
    fn check(&self) -> Result<(), LinkConfigError> {
        error::check_probability("RED", self.max_probability)?;
        error::check_probability("the weight of RED", self.weight)?;
        let wrong = |text: &str| Err(LinkConfigError::Aqm(text.to_owned()));
        if self.weight == 0.0 || self.max_probability == 0.0 {
            return wrong("RED's weight and its probability must exceed 0; give for example 0.002 and 0.02");
        }
        for limit in [self.min, self.max] {
            limit.check()?;
            if limit == QueueLimit::Unlimited {
                return wrong("RED needs two thresholds; give for example 5 packets and 15 packets");
            }
        }
        let packets = |limit| matches!(limit, QueueLimit::Packets(_));
        if packets(self.min) != packets(self.max) {
            return wrong(
                "one threshold of RED is in packets and the other is not; give both in packets or both in bytes",
            );
        }
        Ok(())
    }
}

impl Aqm {
    /// Returns its name in scenarios.
    pub const fn name(&self) -> &'static str {
        match self {
            Aqm::DropTail => "drop-tail",
            Aqm::Red(_) => "red",
            Aqm::Codel(_) => "codel",
            Aqm::FqCodel(_) => "fq-codel",
        }
    }

    /// True if it may ECN-mark packets.
    pub const fn marks(&self) -> bool {
        match self {
            Aqm::DropTail => false,
            Aqm::Red(red) => red.ecn,
            Aqm::Codel(codel) => codel.ecn,
            Aqm::FqCodel(fq) => fq.codel.ecn,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        match self {
            Aqm::DropTail => Ok(()),
            Aqm::Red(red) => red.check(),
            Aqm::Codel(codel) => codel.check(),
            Aqm::FqCodel(fq) => {
                fq.codel.check()?;
                if fq.queues == 0 || fq.queues > 65_536 || fq.quantum == 0 {
                    return Err(LinkConfigError::Aqm(
                        "FQ-CoDel needs from 1 to 65536 queues and a quantum of at least 1 byte".to_owned(),
                    ));
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Aqm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Aqm::DropTail => Ok(()),
            Aqm::Red(red) => write!(f, " ({} to {})", red.min, red.max),
            Aqm::Codel(codel) | Aqm::FqCodel(FqCodel { codel, .. }) => {
                write!(f, " (target {}, interval {})", codel.target, codel.interval)
            }
        }
    }
}
