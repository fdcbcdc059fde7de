//! Values in base units, as the canonical form of a scenario has them.

use anabranch_link::{Capacity, Loss, QueueLimit};
use anabranch_sim::distribution::Distribution;
use anabranch_stack::parameter::{Domain, Value};
use anabranch_units::{Bytes, Duration, Time};

/// Formats a value of `domain` in base units.
pub(crate) fn value(domain: &Domain, value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => number(*n),
        Value::Time(span) => time(*span),
        Value::Numbers(all) => list(all.as_slice().iter().copied().map(number)),
        Value::Size(size) => bytes(*size),
        Value::Growing(initial, max) => {
            format!("{{ initial = {}, max = {} }}", bytes(*initial), bytes(*max))
        }
        Value::Choice(_) | Value::Open => domain.show(value),
    }
}

/// Formats a distribution in base units; points by the hash of their text, or by their name.
pub(crate) fn distribution(of: &Distribution) -> String {
    match of {
        Distribution::Constant(value) => number(*value),
        Distribution::Uniform { min, max } => format!("uniform {} {}", number(*min), number(*max)),
        Distribution::Pareto { shape, min, max } => {
            let max = optional(*max, number);
            format!("pareto {} {} {max}", number(*shape), number(*min))
        }
        Distribution::LogNormal { median, sigma } => {
            format!("log-normal {} {}", number(*median), number(*sigma))
        }
        Distribution::Exponential { mean } => format!("exponential {}", number(*mean)),
        Distribution::Empirical(cdf) => format!("cdf {}", cdf.label()),
        Distribution::Sequence(values) => {
            format!("sequence {}", list(values.iter().copied().map(number)))
        }
    }
}

/// Formats a number: the shortest decimal, without an exponent, that reads back as the same value.
pub(crate) fn number(value: f64) -> String {
    format!("{value}")
}

pub(crate) fn time(value: Duration) -> String {
    format!("{} ns", value.0)
}

pub(crate) fn instant(value: Time) -> String {
    format!("{} ns", value.0)
}

pub(crate) fn bytes(value: Bytes) -> String {
    format!("{} B", value.0)
}

pub(crate) fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or("none".to_owned(), show)
}

pub(crate) fn list(values: impl IntoIterator<Item = impl ToString>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn queue(size: &QueueLimit) -> String {
    match size {
        QueueLimit::Bdp(n) => format!("{} BDP", number(*n)),
        QueueLimit::Packets(n) => format!("{n} packets"),
        QueueLimit::Bytes(n) => format!("{n} B"),
        QueueLimit::Time(span) => time(*span),
        QueueLimit::Unlimited => "unlimited".to_owned(),
    }
}

pub(crate) fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Rate(rate) => format!("{} bit/s", rate.0),
        // The label is the hash of its text.
        Capacity::Trace { trace, start: _ } => format!("trace {}", trace.label()),
    }
}

pub(crate) fn loss(model: &Loss) -> String {
    match model {
        Loss::None => number(0.0),
        Loss::Bernoulli(p) => number(*p),
        Loss::GilbertElliott(channel) => {
            let [good, bad] = [channel.mean_good, channel.mean_bad].map(time);
            format!("gilbert-elliott {good} {bad} {} {}", number(channel.loss_good), number(channel.loss_bad))
        }
    }
}
