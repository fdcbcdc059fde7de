//! Which schedulers there are, and one of them chosen at run time.

use core::fmt;

use super::{
    Backup, Blest, BlestOptions, CpConservative, CpOptions, CpRadical, CustomScheduler, CustomSchedulerKind,
    Daps, DapsOptions, Decision, DelayThreshold, DelayThresholdOptions, Dmptcp, DmptcpOptions, Ecf,
    EcfOptions, EventKinds, Freeze, FreezeOptions, Hsr, HsrOptions, Linux, LinuxOptions, LlBm, LlBmOptions,
    LlRp, LlRpOptions, Lts, Lws, MinRtt, Otias, OtiasOptions, PriorityOptions, Redundant, RoundRobin,
    RoundRobinOptions, Scheduler, SchedulerEvent, StmsA, StmsAOptions, StmsC, StmsCOptions, StrictPriority,
    Sttf, SttfOptions, View, WeightedRoundRobin, WeightedRoundRobinOptions,
};
use crate::config::OpportunisticRetransmission;
use crate::parameter::{Options, Parameterised, Spec, Value};

/// The second of two: where a repetition must name its first.
macro_rules! second {
    ($first:ty, $second:tt) => {
        $second
    };
}

/// All kinds: the variant with the options that it may have, its name, and what it does, in one line.
macro_rules! schedulers {
    ($($(#[$doc:meta])* $variant:ident $(($options:ty = $default:expr))? => $name:literal, $what:literal;)*) => {
        /// Which scheduler a connection uses.
        #[derive(Clone, Debug, PartialEq)]
        pub enum SchedulerKind {
            $($(#[$doc])* $variant $(($options))?,)*
            /// A user's own.
            Custom(CustomSchedulerKind),
        }

        impl SchedulerKind {
            /// All that are built in, with their default options.
            pub const ALL: [SchedulerKind; [$($name),*].len()] =
                [$(SchedulerKind::$variant $(($default))?),*];

            /// Its name in scenarios, on the command line, in Python and in columns of results.
            pub fn name(&self) -> &str {
                match self {
                    $(SchedulerKind::$variant { .. } => $name,)*
                    SchedulerKind::Custom(custom) => &custom.name,
                }
            }

            /// What it does, in one line.
            pub fn description(&self) -> &str {
                match self {
                    $(SchedulerKind::$variant { .. } => $what,)*
                    SchedulerKind::Custom(_) => "a user's own",
                }
            }

            /// A scheduler of this kind for a new connection.
            pub fn build(&self) -> AnyScheduler {
                match self {
                    $(SchedulerKind::$variant $((second!($options, options)))? => {
                        AnyScheduler::$variant(Box::new($variant::new($(*second!($options, options))?)))
                    })*
                    SchedulerKind::Custom(custom) => AnyScheduler::Custom((custom.build)()),
                }
            }
        }

        impl Parameterised for SchedulerKind {
            const WHAT: &'static str = "scheduler";

            fn from_name(name: &str) -> Option<SchedulerKind> {
                SchedulerKind::from_name(name)
            }

            fn names() -> Vec<&'static str> {
                vec![$($name),*]
            }

            fn parameters(&self) -> Vec<(Spec, Value)> {
                match self {
                    $($(SchedulerKind::$variant(options) => {
                        <$options as Options>::values(options)
                    })?)*
                    _ => Vec::new(),
                }
            }

            fn set_parameter(&mut self, name: &str, value: Value) -> bool {
                match self {
                    $($(SchedulerKind::$variant(options) => {
                        <$options as Options>::set(options, name, value)
                    })?)*
                    _ => false,
                }
            }

            fn contradiction(&self) -> Option<[&'static str; 2]> {
                match self {
                    $($(SchedulerKind::$variant(options) => {
                        <$options as Options>::contradiction(options)
                    })?)*
                    _ => None,
                }
            }
        }

        /// The scheduler of a connection. Each stands behind a pointer, so that a connection is no larger for
        /// the state of schedulers that it does not have.
        #[derive(Clone)]
        pub enum AnyScheduler {
            $($(#[$doc])* $variant(Box<$variant>),)*
            /// A user's own.
            Custom(Box<dyn CustomScheduler>),
        }

        impl fmt::Debug for AnyScheduler {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.fmt(f),)*
                    AnyScheduler::Custom(_) => f.write_str("Custom"),
                }
            }
        }

        impl Scheduler for AnyScheduler {
            #[inline]
            fn decide(&mut self, view: &View<'_>) -> Decision {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.decide(view),)*
                    AnyScheduler::Custom(inner) => inner.decide(view),
                }
            }

            #[inline]
            fn on_event(&mut self, view: &View<'_>, event: &SchedulerEvent) {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.on_event(view, event),)*
                    AnyScheduler::Custom(inner) => inner.on_event(view, event),
                }
            }

            fn wants_events(&self) -> EventKinds {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.wants_events(),)*
                    AnyScheduler::Custom(inner) => inner.wants_events(),
                }
            }

            fn revises_queues(&self) -> bool {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.revises_queues(),)*
                    AnyScheduler::Custom(inner) => inner.revises_queues(),
                }
            }

            fn decides_alone(&self) -> bool {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.decides_alone(),)*
                    AnyScheduler::Custom(inner) => inner.decides_alone(),
                }
            }

            fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.opportunistic(),)*
                    AnyScheduler::Custom(inner) => inner.opportunistic(),
                }
            }
        }
    };
}

schedulers! {
    /// The subflow with the lowest RTT that has room.
    MinRtt => "min_rtt", "the subflow with the lowest round-trip time that has room";
    /// Every subflow in turn.
    RoundRobin(RoundRobinOptions = RoundRobinOptions::DEFAULT) => "round_robin",
        "every subflow in turn, a few segments each";
    /// Every subflow carries everything.
    Redundant => "redundant", "every subflow carries everything";
    /// The lowest RTT of those subflows that a flow of this size has use for.
    Dmptcp(DmptcpOptions = DmptcpOptions::DEFAULT) => "dmptcp",
        "the lowest round-trip time among the subflows that what remains of the flow has use for";
    /// Upstream Linux: the subflow that will have sent the soonest what it holds.
    Linux(LinuxOptions = LinuxOptions::DEFAULT) => "linux",
        "upstream Linux: the subflow that will have sent the soonest what it holds, 64 KB at a time";
    /// Every subflow gets its share.
    WeightedRoundRobin(WeightedRoundRobinOptions = WeightedRoundRobinOptions::DEFAULT) =>
        "weighted_round_robin", "every subflow gets its share of the segments, evenly spread";
    /// minRTT with opportunistic retransmission and penalisation.
    LlRp(LlRpOptions = LlRpOptions::DEFAULT) => "ll_rp",
        "min_rtt that sends again what blocks the window, and halves the window of the blocker";
    /// minRTT with bufferbloat mitigation.
    LlBm(LlBmOptions = LlBmOptions::DEFAULT) => "ll_bm",
        "min_rtt that uses less of a window whose round-trip time has grown";
    /// A slow subflow is idle if what it would hold blocks the fast one.
    Blest(BlestOptions = BlestOptions::DEFAULT) => "blest",
        "min_rtt that leaves a slow subflow idle if it would block the receive window";
    /// What remains may be done sooner if it waits for the fast subflow.
    Ecf(EcfOptions = EcfOptions::DEFAULT) => "ecf",
        "min_rtt that waits for the fast subflow if what remains is done sooner so";
    /// A schedule by the delays, made beforehand.
    Daps(DapsOptions = DapsOptions::DEFAULT) => "daps",
        "a schedule made beforehand from delays and windows, for arrival in order";
    /// Each segment waits where it will arrive the soonest.
    Otias(OtiasOptions = OtiasOptions::DEFAULT) => "otias",
        "each segment waits on the subflow on which it will arrive the soonest";
    /// Each segment waits where its transmission is over the soonest.
    Sttf(SttfOptions = SttfOptions::DEFAULT) => "sttf",
        "each segment waits where it is delivered the soonest, as windows are foreseen to grow";
    /// The highest sending rate.
    Hsr(HsrOptions = HsrOptions::DEFAULT) => "hsr", "the subflow with the highest sending rate that has room";
    /// The largest window space.
    Lws => "lws", "the subflow with the largest free part of its window";
    /// The lowest time over space.
    Lts => "lts", "the subflow with the least round-trip time over the free part of its window";
    /// CP scheduling, radical.
    CpRadical(CpOptions = CpOptions::RADICAL) => "cp_radical",
        "a slower subflow only while the receive buffer has room for what arrives early";
    /// CP scheduling, conservative.
    CpConservative(CpOptions = CpOptions::CONSERVATIVE) => "cp_conservative",
        "the same, with room for all that is outstanding, and after the fastest's slow start";
    /// Later data first on the slow subflow, by the gap of the moment.
    StmsC(StmsCOptions = StmsCOptions::DEFAULT) => "stms_c",
        "slow subflows send later data first, which arrives in its turn; the gap is computed";
    /// Later data first on the slow subflow, by a gap that learns.
    StmsA(StmsAOptions = StmsAOptions::DEFAULT) => "stms_a",
        "the same with a gap that is learnt from the data acknowledgements";
    /// Slow subflows are frozen.
    Freeze(FreezeOptions = FreezeOptions::DEFAULT) => "freeze",
        "min_rtt without subflows whose round-trip time is far above the fastest's";
    /// A primary subflow, and others in reserve.
    Backup(PriorityOptions = PriorityOptions::DEFAULT) => "backup",
        "the first subflow by priority that works, and no other";
    /// The first by priority that has room.
    StrictPriority(PriorityOptions = PriorityOptions::DEFAULT) => "strict_priority",
        "the first subflow by priority that has room";
    /// The first whose RTT is below a threshold.
    DelayThreshold(DelayThresholdOptions = DelayThresholdOptions::DEFAULT) => "delay_threshold",
        "the first subflow whose round-trip time is below a threshold";
}

impl SchedulerKind {
    /// The built-in scheduler of that name, with its default options.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
