//! Parameters of schedulers and congestion controls: one table for each, from which scenarios, the command
//! line and lists take their names, ranges and defaults.
//!
//! An algorithm with parameters keeps them in a plain struct, with a table of one [`Parameter`] per field.
//! This crate parses no text: a scenario's text is converted elsewhere to a [`Value`] of the parameter's
//! [`Domain`].

use core::fmt;

use anabranch_units::{Bytes, Duration};

/// The value of a parameter.
// Few are ever made, and copies are convenient.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number with decimals.
    Number(f64),
    /// A duration, with its unit in scenarios.
    Time(Duration),
    /// One of the words of a [`Domain::Choice`], by position.
    Choice(usize),
    /// Up to 32 numbers.
    Numbers(Numbers),
    /// A buffer of fixed size.
    Size(Bytes),
    /// A buffer that grows from the first size up to the second.
    Growing(Bytes, Bytes),
    /// Unset, if the [`Domain`] allows it.
    Open,
}

/// The allowed values of a parameter. All limits are inclusive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Domain {
    /// True or false.
    Bool,
    /// A whole number from the first to the second.
    Integer(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// A time from the first to the second.
    Time(Duration, Duration),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of up to 32 numbers, each from the first to the second; may be empty.
    Numbers(f64, f64),
    /// A buffer: a size in this range, or two sizes between which it grows.
    Buffer(Bytes, Bytes),
    /// Such a buffer, or this word for none ([`Value::Open`]).
    OpenBuffer(Bytes, Bytes, &'static str),
    /// A whole number in this range, or this word for none ([`Value::Open`]).
    OpenInteger(u64, u64, &'static str),
    /// A number in this range, or this word for none ([`Value::Open`]).
    OpenNumber(f64, f64, &'static str),
    /// A time in this range, or this word for none ([`Value::Open`]).
    OpenTime(Duration, Duration, &'static str),
}

impl Domain {
    /// True if `value` is of this kind and in the range.
    pub fn admits(&self, value: &Value) -> bool {
        match (*self, *value) {
            (Domain::Bool, Value::Bool(_)) => true,
            (Domain::Integer(low, high) | Domain::OpenInteger(low, high, _), Value::Integer(n)) => {
                (low..=high).contains(&n)
            }
            (Domain::Number(low, high) | Domain::OpenNumber(low, high, _), Value::Number(n)) => {
                (low..=high).contains(&n)
            }
            (Domain::Time(low, high) | Domain::OpenTime(low, high, _), Value::Time(time)) => {
                (low..=high).contains(&time)
            }
            (Domain::Choice(words), Value::Choice(at)) => at < words.len(),
            (Domain::Numbers(low, high), Value::Numbers(all)) => {
                all.as_slice().iter().all(|n| (low..=high).contains(n))
            }
            (Domain::Buffer(low, high) | Domain::OpenBuffer(low, high, _), Value::Size(size)) => {
                (low..=high).contains(&size)
            }
            (Domain::Buffer(low, high) | Domain::OpenBuffer(low, high, _), Value::Growing(initial, max)) => {
                low <= initial && initial <= max && max <= high
            }
            (domain, Value::Open) => domain.open_word().is_some(),
            _ => false,
        }
    }

    /// Returns the word for an unset value, if one is allowed.
    pub fn open_word(&self) -> Option<&'static str> {
        match *self {
            Domain::OpenInteger(.., word)
            | Domain::OpenNumber(.., word)
            | Domain::OpenTime(.., word)
            | Domain::OpenBuffer(.., word) => Some(word),
            _ => None,
        }
    }

    /// Formats `value` as in a scenario, without quotes.
    pub fn show(&self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Bool(value)) => value.to_string(),
            (_, Value::Integer(value)) => value.to_string(),
            (_, Value::Number(value)) => value.to_string(),
            (_, Value::Time(value)) => value.to_string(),
            (Domain::Choice(words), Value::Choice(at)) => words.get(*at).copied().unwrap_or("?").to_owned(),
            (_, Value::Choice(at)) => at.to_string(),
            (_, Value::Numbers(all)) => {
                let all: Vec<String> = all.as_slice().iter().map(f64::to_string).collect();
                format!("[{}]", all.join(", "))
            }
            (_, Value::Size(size)) => format!("{} B", size.0),
            (_, Value::Growing(initial, max)) => {
                format!("{{ initial = {} B, max = {} B }}", initial.0, max.0)
            }
            (domain, Value::Open) => domain.open_word().unwrap_or("none").to_owned(),
        }
    }
}

/// The allowed values, for error messages.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Bool => f.write_str("`true` or `false`"),
            Domain::Integer(low, high) | Domain::OpenInteger(low, high, _) => {
                write!(f, "a whole number from {low} to {high}")
            }
            Domain::Number(low, high) | Domain::OpenNumber(low, high, _) => {
                write!(f, "a number from {low} to {high}")
            }
            Domain::Time(low, high) | Domain::OpenTime(low, high, _) => {
                write!(f, "a time from {low} to {high}")
            }
            Domain::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                f.write_str(&words.join(" or "))
            }
            Domain::Numbers(low, high) => write!(f, "a list of numbers from {low} to {high}"),
            Domain::Buffer(low, high) | Domain::OpenBuffer(low, high, _) => {
                write!(f, "a size from `{low}` to `{high}`, or `{{ initial = \"...\", max = \"...\" }}`")
            }
        }?;
        self.open_word().map_or(Ok(()), |word| write!(f, ", or `{word}`"))
    }
}

/// Up to 32 numbers: one for each subflow.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    values: [f64; 32],
    len: u8,
}

impl Numbers {
    /// The empty list.
    pub const EMPTY: Numbers = Numbers { values: [0.0; 32], len: 0 };

    /// Returns the numbers, or `None` if there are too many.
    pub fn new(values: &[f64]) -> Option<Numbers> {
        let mut all = Numbers::EMPTY;
        all.values.get_mut(..values.len())?.copy_from_slice(values);
        all.len = values.len() as u8;
        Some(all)
    }

    /// Returns the numbers in their order, without the unused places.
    pub fn as_slice(&self) -> &[f64] {
        self.values.get(..usize::from(self.len)).unwrap_or(&self.values)
    }
}

impl PartialEq for Numbers {
    fn eq(&self, other: &Numbers) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// The description of a parameter, without its algorithm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spec {
    /// Its name, in lower case and with hyphens.
    pub name: &'static str,
    /// Its meaning, in a few words, with its unit.
    pub what: &'static str,
    /// The type and the range of its values.
    pub domain: Domain,
}

/// One parameter of an algorithm with the options `O`.
#[derive(Clone, Copy)]
pub struct Parameter<O> {
    /// Name, meaning and range.
    pub spec: Spec,
    /// Returns its value in `O`.
    pub get: fn(&O) -> Value,
    /// Sets it; a value outside of its domain changes nothing.
    pub set: fn(&mut O, Value),
}

/// Options that can be set by name: the options of an algorithm, or of a connection.
pub trait Options: Sized + 'static {
    /// One entry for each option.
    const PARAMETERS: &'static [Parameter<Self>];

    /// Pairs of names. The value of the first must not be greater than the value of the second.
    const ORDERED: &'static [[&'static str; 2]] = &[];

    /// Returns each parameter with its value.
    fn values(&self) -> Vec<(Spec, Value)> {
        Self::PARAMETERS.iter().map(|parameter| (parameter.spec, (parameter.get)(self))).collect()
    }

    /// Sets the parameter `name`; returns false, and changes nothing, if there is none of that name or the
    /// value is not in its domain.
    fn set(&mut self, name: &str, value: Value) -> bool {
        let Some(parameter) = Self::PARAMETERS.iter().find(|parameter| parameter.spec.name == name) else {
            return false;
        };
        if !parameter.spec.domain.admits(&value) {
            return false;
        }
        (parameter.set)(self, value);
        true
    }

    /// Returns a pair of [`Options::ORDERED`] that breaks the rule: the first value is greater than the
    /// second.
    fn contradiction(&self) -> Option<[&'static str; 2]> {
        let value = |name: &str| {
            let found = Self::PARAMETERS.iter().find(|parameter| parameter.spec.name == name);
            found.map(|parameter| (parameter.get)(self))
        };
        Self::ORDERED.iter().copied().find(|[less, more]| match (value(less), value(more)) {
            (Some(Value::Integer(less)), Some(Value::Integer(more))) => less > more,
            (Some(Value::Number(less)), Some(Value::Number(more))) => less > more,
            (Some(Value::Time(less)), Some(Value::Time(more))) => less > more,
            _ => false,
        })
    }
}

/// An algorithm that is chosen by name and has parameters: a scheduler or a congestion control.
pub trait Parameterised: Clone {
    /// The kind of algorithm, for errors: `scheduler`.
    const WHAT: &'static str;

    /// Returns the algorithm with the given name, with its defaults.
    fn from_name(name: &str) -> Option<Self>;

    /// Returns the names of all algorithms, in the order of lists.
    fn names() -> Vec<&'static str>;

    /// Returns the parameters of this algorithm in the order of lists, each with its current value.
    fn parameters(&self) -> Vec<(Spec, Value)>;

    /// Sets a parameter; returns false, and changes nothing, if there is none of that name or the value is
    /// not in its domain.
    fn set_parameter(&mut self, name: &str, value: Value) -> bool;

    /// Returns two parameters if the first must not be greater than the second, but is.
    fn contradiction(&self) -> Option<[&'static str; 2]> {
        None
    }
}

/// Converts `value` to the type of a field, if it fits.
pub fn narrow<T: TryFrom<u64>>(value: u64) -> Option<T> {
    T::try_from(value).ok()
}

/// A [`Parameter`] that is a field of the options.
///
/// `parameter!(BlestOptions, "lambda", "first value of lambda", number 0.0, 10.0, lambda)`; the kinds are
/// `bool`, `integer low, high` (any unsigned field), `number low, high`, `time low, high`, `choice
/// ["word" => Value::A, ...]`, `numbers low, high`, and `open integer|number|time low, high, "word"`
/// for an `Option`.
#[macro_export]
macro_rules! parameter {
    (@make $options:ty, $name:literal, $what:literal, $domain:expr, $get:expr, $set:expr) => {
        $crate::parameter::Parameter::<$options> {
            spec: $crate::parameter::Spec { name: $name, what: $what, domain: $domain },
            get: $get,
            set: $set,
        }
    };
    ($options:ty, $name:literal, $what:literal, bool, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Bool,
            |options| $crate::parameter::Value::Bool(options.$($field).+),
            |options, value| if let $crate::parameter::Value::Bool(value) = value {
                options.$($field).+ = value;
            })
    };
    ($options:ty, $name:literal, $what:literal, integer $low:expr, $high:expr, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Integer($low, $high),
            |options| $crate::parameter::Value::Integer(u64::from(options.$($field).+)),
            |options, value| if let $crate::parameter::Value::Integer(value) = value
                && let Some(value) = $crate::parameter::narrow(value) {
                options.$($field).+ = value;
            })
    };
    ($options:ty, $name:literal, $what:literal, number $low:expr, $high:expr, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Number($low, $high),
            |options| $crate::parameter::Value::Number(options.$($field).+),
            |options, value| if let $crate::parameter::Value::Number(value) = value {
                options.$($field).+ = value;
            })
    };
    ($options:ty, $name:literal, $what:literal, time $low:expr, $high:expr, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Time($low, $high),
            |options| $crate::parameter::Value::Time(options.$($field).+),
            |options, value| if let $crate::parameter::Value::Time(value) = value {
                options.$($field).+ = value;
            })
    };
    ($options:ty, $name:literal, $what:literal, numbers $low:expr, $high:expr, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Numbers($low, $high),
            |options| $crate::parameter::Value::Numbers(options.$($field).+),
            |options, value| if let $crate::parameter::Value::Numbers(value) = value {
                options.$($field).+ = value;
            })
    };
    ($options:ty, $name:literal, $what:literal, choice [$($word:literal => $value:path),+ $(,)?], $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what, $crate::parameter::Domain::Choice(&[$($word),+]),
            |options| {
                let known = [$($value),+];
                let at = known.iter().position(|value| *value == options.$($field).+);
                $crate::parameter::Value::Choice(at.unwrap_or(usize::MAX))
            },
            |options, value| if let $crate::parameter::Value::Choice(at) = value
                && let Some(value) = [$($value),+].get(at) {
                options.$($field).+ = *value;
            })
    };
    ($options:ty, $name:literal, $what:literal, open integer $low:expr, $high:expr, $word:literal, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what,
            $crate::parameter::Domain::OpenInteger($low, $high, $word),
            |options| options.$($field).+
                .map_or($crate::parameter::Value::Open, |n| $crate::parameter::Value::Integer(u64::from(n))),
            |options, value| match value {
                $crate::parameter::Value::Integer(value) => {
                    if let Some(value) = $crate::parameter::narrow(value) {
                        options.$($field).+ = Some(value);
                    }
                }
                $crate::parameter::Value::Open => options.$($field).+ = None,
                _ => {}
            })
    };
    ($options:ty, $name:literal, $what:literal, open number $low:expr, $high:expr, $word:literal, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what,
            $crate::parameter::Domain::OpenNumber($low, $high, $word),
            |options| options.$($field).+
                .map_or($crate::parameter::Value::Open, $crate::parameter::Value::Number),
            |options, value| match value {
                $crate::parameter::Value::Number(value) => options.$($field).+ = Some(value),
                $crate::parameter::Value::Open => options.$($field).+ = None,
                _ => {}
            })
    };
    ($options:ty, $name:literal, $what:literal, open time $low:expr, $high:expr, $word:literal, $($field:ident).+) => {
        $crate::parameter!(@make $options, $name, $what,
            $crate::parameter::Domain::OpenTime($low, $high, $word),
            |options| options.$($field).+
                .map_or($crate::parameter::Value::Open, $crate::parameter::Value::Time),
            |options, value| match value {
                $crate::parameter::Value::Time(value) => options.$($field).+ = Some(value),
                $crate::parameter::Value::Open => options.$($field).+ = None,
                _ => {}
            })
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Colour {
        Red,
        Green,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Options {
        flag: bool,
        count: u8,
        most: u8,
        weight: f64,
        pause: Duration,
        colour: Colour,
        limit: Option<u32>,
    }

    impl super::Options for Options {
        const PARAMETERS: &'static [Parameter<Options>] = &[
            parameter!(Options, "flag", "", bool, flag),
            parameter!(Options, "count", "", integer 1, 255, count),
            parameter!(Options, "most", "", integer 1, 255, most),
            parameter!(Options, "weight", "", number 0.0, 1.0, weight),
            parameter!(Options, "pause", "", time Duration::ZERO, Duration::from_secs(1), pause),
            parameter!(Options, "colour", "", choice ["red" => Colour::Red, "green" => Colour::Green], colour),
            parameter!(Options, "limit", "", open integer 1, 9, "none", limit),
        ];
        const ORDERED: &'static [[&'static str; 2]] = &[["count", "most"]];
    }

    const DEFAULT: Options = Options {
        flag: false,
        count: 1,
        most: 1,
        weight: 0.5,
        pause: Duration::ZERO,
        colour: Colour::Red,
        limit: None,
    };

    #[test]
    fn a_set_value_is_the_shown_value() {
        let mut options = DEFAULT;
        for (name, value, shown) in [
            ("flag", Value::Bool(true), "true"),
            ("count", Value::Integer(255), "255"),
            ("weight", Value::Number(1.0), "1"),
            ("pause", Value::Time(Duration::from_millis(5)), "5 ms"),
            ("colour", Value::Choice(1), "green"),
            ("limit", Value::Integer(9), "9"),
            ("limit", Value::Open, "none"),
        ] {
            assert!(super::Options::set(&mut options, name, value), "{name}");
            let parameter =
                <Options as super::Options>::PARAMETERS.iter().find(|p| p.spec.name == name).unwrap();
            assert_eq!(parameter.spec.domain.show(&(parameter.get)(&options)), shown);
        }
    }

    #[test]
    fn values_out_of_range_or_of_another_kind_change_nothing() {
        let mut options = DEFAULT;
        for (name, value) in [
            ("count", Value::Integer(0)),
            ("count", Value::Integer(256)),
            ("count", Value::Number(1.0)),
            ("weight", Value::Number(f64::NAN)),
            ("weight", Value::Number(1.01)),
            ("pause", Value::Time(Duration::from_secs(2))),
            ("colour", Value::Choice(2)),
            ("flag", Value::Open),
            ("limit", Value::Integer(10)),
            ("other", Value::Bool(true)),
        ] {
            assert!(!super::Options::set(&mut options, name, value), "{name}: {value:?}");
        }
        assert_eq!(options, DEFAULT);
    }

    #[test]
    fn a_value_that_must_not_be_greater_is_noticed() {
        use super::Options as _;
        assert_eq!(DEFAULT.contradiction(), None);
        assert_eq!(Options { count: 2, ..DEFAULT }.contradiction(), Some(["count", "most"]));
    }

    #[test]
    fn a_buffer_is_a_size_or_two() {
        let domain = Domain::OpenBuffer(Bytes(10), Bytes(20), "none");
        for right in [Value::Size(Bytes(10)), Value::Growing(Bytes(10), Bytes(20)), Value::Open] {
            assert!(domain.admits(&right), "{right:?}");
        }
        for wrong in [
            Value::Size(Bytes(9)),
            Value::Size(Bytes(21)),
            Value::Growing(Bytes(12), Bytes(11)),
            Value::Growing(Bytes(9), Bytes(11)),
            Value::Integer(10),
        ] {
            assert!(!domain.admits(&wrong), "{wrong:?}");
        }
        assert!(!Domain::Buffer(Bytes(10), Bytes(20)).admits(&Value::Open));
    }
}
