//! The list of schedulers, and a scheduler chosen at run time.

use core::fmt;

use super::{
    Anabranch, AnabranchOptions, Backup, Blest, BlestOptions, CpConservative, CpOptions, CpRadical,
    CustomScheduler, CustomSchedulerKind, Daps, DapsOptions, Decision, DelayThreshold, DelayThresholdOptions,
    Dmptcp, DmptcpOptions, Ecf, EcfOptions, EventKinds, Freeze, FreezeOptions, Hsr, HsrOptions, Linux,
    LinuxOptions, LlBm, LlBmOptions, LlRp, LlRpOptions, Lts, Lws, MinRtt, Otias, OtiasOptions,
    PriorityOptions, Redundant, RoundRobin, RoundRobinOptions, Scheduler, SchedulerEvent, StmsA,
    StmsAOptions, StmsC, StmsCOptions, StrictPriority, Sttf, SttfOptions, View, WeightedRoundRobin,
    WeightedRoundRobinOptions,
};
use crate::parameter::{Options, Parameterised, Spec, Value};
use crate::scheduler::OpportunisticRetransmission;

/// Returns its second argument; the first only drives a macro repetition.
macro_rules! second {
    ($first:ty, $second:tt) => {
        $second
    };
}

/// Declares all kinds: the variant with its options if any, its name, and a one-line description.
macro_rules! schedulers {
    ($($(#[$doc:meta])* $variant:ident $(($options:ty = $default:expr))? => $name:literal, $what:literal;)*) => {
        /// The scheduler of a connection.
        #[derive(Clone, Debug, PartialEq)]
        pub enum SchedulerKind {
            $($(#[$doc])* $variant $(($options))?,)*
            /// A user-defined scheduler.
            Custom(CustomSchedulerKind),
        }

        impl SchedulerKind {
            /// All built-in schedulers with their default options.
            pub const ALL: [SchedulerKind; [$($name),*].len()] =
                [$(SchedulerKind::$variant $(($default))?),*];

            /// Returns the name used in scenarios, on the command line, in Python and in result columns.
            pub fn name(&self) -> &str {
                match self {
                    $(SchedulerKind::$variant { .. } => $name,)*
                    SchedulerKind::Custom(custom) => &custom.name,
                }
            }

            /// Returns a one-line description.
            pub fn description(&self) -> &str {
                match self {
                    $(SchedulerKind::$variant { .. } => $what,)*
                    SchedulerKind::Custom(_) => "user-defined",
                }
            }

            /// Builds a scheduler of this kind for a new connection.
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

        /// The scheduler of a connection. Each variant is boxed, so that a connection does not pay for the
        /// state of schedulers it does not use.
        #[derive(Clone)]
        pub enum AnyScheduler {
            $($(#[$doc])* $variant(Box<$variant>),)*
            /// A user-defined scheduler.
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
            // Not inlined: there are many instances, and inlining puts all of them in the way of the caller.
            #[inline(never)]
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

            fn copies_outstanding(&self) -> bool {
                match self {
                    $(AnyScheduler::$variant(inner) => inner.copies_outstanding(),)*
                    AnyScheduler::Custom(inner) => inner.copies_outstanding(),
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
    /// The subflow with the lowest RTT of all with free window.
    MinRtt => "min_rtt", "the subflow with the lowest round-trip time among those with free window";
    /// Every subflow in turn.
    RoundRobin(RoundRobinOptions = RoundRobinOptions::DEFAULT) => "round_robin",
        "every subflow in turn, a few segments each";
    /// Every subflow carries everything.
    Redundant => "redundant", "every subflow carries everything";
    /// The lowest RTT among the subflows that a flow of this size can benefit from.
    Dmptcp(DmptcpOptions = DmptcpOptions::DEFAULT) => "dmptcp",
        "the lowest round-trip time among the subflows from which the rest of the flow benefits";
    /// Upstream Linux: the subflow that is predicted to send its queued data soonest.
    Linux(LinuxOptions = LinuxOptions::DEFAULT) => "linux",
        "upstream Linux: the subflow predicted to send its queued data soonest, 64 KB at a time";
    /// Every subflow carries its share.
    WeightedRoundRobin(WeightedRoundRobinOptions = WeightedRoundRobinOptions::DEFAULT) =>
        "weighted_round_robin", "every subflow carries its share of the segments, evenly interleaved";
    /// minRTT with opportunistic retransmission and penalisation.
    LlRp(LlRpOptions = LlRpOptions::DEFAULT) => "ll_rp",
        "min_rtt that reinjects data blocking the window, and halves the window of the blocking subflow";
    /// minRTT with bufferbloat mitigation.
    LlBm(LlBmOptions = LlBmOptions::DEFAULT) => "ll_bm",
        "min_rtt that uses less of a window when the round-trip time has grown";
    /// Leaves a slow subflow idle if its data would block the fast one.
    Blest(BlestOptions = BlestOptions::DEFAULT) => "blest",
        "min_rtt that leaves a slow subflow idle if it would block the receive window";
    /// Waits for the fast subflow if the remaining data then completes sooner.
    Ecf(EcfOptions = EcfOptions::DEFAULT) => "ecf",
        "min_rtt that waits for the fast subflow if the remaining data then completes sooner";
    /// A schedule precomputed from the delays.
    Daps(DapsOptions = DapsOptions::DEFAULT) => "daps",
        "a schedule precomputed from delays and windows, for arrival in order";
    /// Queues each segment on the subflow where it is predicted to arrive first.
    Otias(OtiasOptions = OtiasOptions::DEFAULT) => "otias",
        "each segment is queued on the subflow where it is predicted to arrive first";
    /// Queues each segment on the subflow that is predicted to deliver it first.
    Sttf(SttfOptions = SttfOptions::DEFAULT) => "sttf",
        "each segment is queued where it is delivered first, with the expected growth of the window";
    /// The highest sending rate.
    Hsr(HsrOptions = HsrOptions::DEFAULT) => "hsr",
        "the subflow with the highest sending rate among those with free window";
    /// The largest window space.
    Lws => "lws", "the subflow with the largest free part of its window";
    /// The lowest time over space.
    Lts => "lts", "the subflow with the least round-trip time over the free part of its window";
    /// CP scheduling, radical.
    CpRadical(CpOptions = CpOptions::RADICAL) => "cp_radical",
        "a slower subflow only while the receive buffer has space for data that arrives early";
    /// CP scheduling, conservative.
    CpConservative(CpOptions = CpOptions::CONSERVATIVE) => "cp_conservative",
        "the same, with space for all outstanding data, and after the fastest subflow's slow start";
    /// Sends later data first on the slow subflow, by a computed gap.
    StmsC(StmsCOptions = StmsCOptions::DEFAULT) => "stms_c",
        "slow subflows send later data first, so that it arrives in order; the gap is computed";
    /// Sends later data first on the slow subflow, by a learned gap.
    StmsA(StmsAOptions = StmsAOptions::DEFAULT) => "stms_a",
        "the same with a gap learned from the data acknowledgements";
    /// Freezes slow subflows.
    Freeze(FreezeOptions = FreezeOptions::DEFAULT) => "freeze",
        "min_rtt without subflows whose round-trip time is far above the fastest's";
    /// The next data goes where it is predicted to arrive in order, and a path that does not help stays idle.
    Anabranch(AnabranchOptions = AnabranchOptions::DEFAULT) => "anabranch",
        "each subflow gets the data that is predicted to arrive there in order, and none if that does not help";
    /// A primary subflow with the others in reserve.
    Backup(PriorityOptions = PriorityOptions::DEFAULT) => "backup",
        "the first subflow by priority that works, and no other";
    /// The first subflow by priority with free window.
    StrictPriority(PriorityOptions = PriorityOptions::DEFAULT) => "strict_priority",
        "the first subflow by priority with free window";
    /// The first subflow with an RTT below a threshold.
    DelayThreshold(DelayThresholdOptions = DelayThresholdOptions::DEFAULT) => "delay_threshold",
        "the first subflow whose round-trip time is below a threshold";
}

impl SchedulerKind {
    /// Returns the built-in scheduler with the given name and its default options.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
