//! The macro of the declarations.

use crate::gather::{Gather, Of};

/// Gathers the values of flows, by run, that `take` takes from each.
pub(crate) fn gathered<S, G: Gather>(runs: &[Vec<S>], of: Of, take: impl Fn(&S, Of) -> G::Taken) -> G::All {
    G::all(runs.iter().map(|run| run.iter().map(|flow| take(flow, of)).collect()).collect(), of)
}

/// Declares two records, one for a contender and one for a flow, by their rows:
///
/// * `both NAME: TYPE;`, `contender NAME: TYPE;`, `flow NAME: TYPE;` is a field that is no measure, of both records or of one. With
///   `optional` before it the field is left out of JSON where it has no value.
/// * `measure both NAME: GATHER = |flow, of| TAKEN => MEASURE;` is a measure: how it is gathered, what is taken from a flow,
///   and a [`Measure`](crate::column::Measure) with unit, traffic, direction and columns. The comment is its meaning.
macro_rules! records {
    (
        $(#[doc = $cd:literal])+ contender $all:ident;
        $(#[doc = $fd:literal])+ flow $one:ident;
        from $source:ty; within $within:literal; rows $table:ident;
        $($rows:tt)*
    ) => {
        $crate::declare::records!(@ { [$($cd)+] $all [$($fd)+] $one [$source] $within $table } [] [] [] [] [] $($rows)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ both $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ pub $n: $t,] [$($f)* $(#[doc = $d])+ pub $n: $t,] [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ contender $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h [$($c)* $(#[doc = $d])+ pub $n: $t,] [$($f)*] [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ flow $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h [$($c)*] [$($f)* $(#[doc = $d])+ pub $n: $t,] [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ optional both $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ #[serde(skip_serializing_if = "Option::is_none")] pub $n: Option<$t>,]
            [$($f)* $(#[doc = $d])+ #[serde(skip_serializing_if = "Option::is_none")] pub $n: Option<$t>,]
            [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ optional contender $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ #[serde(skip_serializing_if = "Option::is_none")] pub $n: Option<$t>,]
            [$($f)*] [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ contender $n:ident: $t:ty, unless $empty:literal; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ #[serde(default, skip_serializing_if = $empty)] pub $n: $t,]
            [$($f)*] [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ optional flow $n:ident: $t:ty; $($rest:tt)*) => {
        $crate::declare::records!(@ $h [$($c)*]
            [$($f)* $(#[doc = $d])+ #[serde(skip_serializing_if = "Option::is_none")] pub $n: Option<$t>,]
            [$($a)*] [$($o)*] [$($m)*] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ measure both $n:ident: $g:ty = |$x:ident, $k:ident| $e:expr => $meta:expr; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ pub $n: <$g as $crate::gather::Gather>::All,]
            [$($f)* $(#[doc = $d])+ pub $n: <$g as $crate::gather::Gather>::One,]
            [$($a)* { $n {$g} $x $k {$e} }] [$($o)* { $n {$g} $x $k {$e} }]
            [$($m)* { $n [$($d)+] {$meta} true true }] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ measure contender $n:ident: $g:ty = |$x:ident, $k:ident| $e:expr => $meta:expr; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)* $(#[doc = $d])+ pub $n: <$g as $crate::gather::Gather>::All,] [$($f)*]
            [$($a)* { $n {$g} $x $k {$e} }] [$($o)*]
            [$($m)* { $n [$($d)+] {$meta} true false }] $($rest)*);
    };
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ measure flow $n:ident: $g:ty = |$x:ident, $k:ident| $e:expr => $meta:expr; $($rest:tt)*) => {
        $crate::declare::records!(@ $h
            [$($c)*] [$($f)* $(#[doc = $d])+ pub $n: <$g as $crate::gather::Gather>::One,]
            [$($a)*] [$($o)* { $n {$g} $x $k {$e} }]
            [$($m)* { $n [$($d)+] {$meta} false true }] $($rest)*);
    };
    // A measure that only samples have.
    (@ $h:tt [$($c:tt)*] [$($f:tt)*] [$($a:tt)*] [$($o:tt)*] [$($m:tt)*]
        $(#[doc = $d:literal])+ measure samples $n:ident => $meta:expr; $($rest:tt)*) => {
        $crate::declare::records!(@ $h [$($c)*] [$($f)*] [$($a)*] [$($o)*]
            [$($m)* { $n [$($d)+] {$meta} false false }] $($rest)*);
    };
    (@ { [$($cd:literal)+] $all:ident [$($fd:literal)+] $one:ident [$source:ty] $within:literal $table:ident }
        [$($c:tt)*] [$($f:tt)*]
        [$({ $an:ident {$ag:ty} $ax:ident $ak:ident {$ae:expr} })*]
        [$({ $on:ident {$og:ty} $ox:ident $ok:ident {$oe:expr} })*]
        [$({ $mn:ident [$($md:literal)+] {$meta:expr} $mc:literal $mf:literal })*]) => {
        $(#[doc = $cd])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $all { $($c)* }

        $(#[doc = $fd])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $one { $($f)* }

        impl $all {
            /// The fields with their types in other languages.
            pub(crate) const FIELDS: &'static [$crate::field::Field] = $crate::field::fields! { $($c)* };
        }

        #[allow(clippy::needless_update, reason = "a record may consist of measures only")]
        impl $all {
            /// Returns the measures of flows, by run, without the fields that are no measures.
            pub fn gather(runs: &[Vec<$source>], of: $crate::gather::Of) -> $all {
                $all {
                    $($an: $crate::declare::gathered::<$source, $ag>(runs, of, |$ax, $ak| { let _ = $ak; $ae }),)*
                    ..Default::default()
                }
            }
        }

        #[allow(clippy::needless_update, reason = "a record may consist of measures only")]
        impl $one {
            /// Returns the measures of one flow, without the fields that are no measures.
            pub fn of(flow: &$source, of: $crate::gather::Of) -> $one {
                $one {
                    $($on: {
                        let take = |$ox: &$source, $ok: $crate::gather::Of| { let _ = $ok; $oe };
                        <$og as $crate::gather::Gather>::one(take(flow, of))
                    },)*
                    ..Default::default()
                }
            }
        }

        static $table: &[$crate::column::Measure] = &[$($crate::column::Measure {
            name: stringify!($mn),
            meaning: concat!($($md),+),
            within: $within,
            of_contenders: $mc,
            of_flows: $mf,
            ..$meta
        }),*];
    };
}

pub(crate) use records;
