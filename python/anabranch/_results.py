"""The records of results, with the keys of the command's JSON.

Generated from the structs of crates/ by tools/typings.py, which also compares it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from anabranch._records import Difference, Interval

__all__ = [
    "AnnouncedAddress",
    "ApplicationTurn",
    "BusyTime",
    "CapturedApplication",
    "CapturedConnection",
    "CapturedDirection",
    "CapturedPart",
    "CapturedStream",
    "CapturedSubflow",
    "Change",
    "Checked",
    "Estimated",
    "Excess",
    "Explained",
    "Finding",
    "KernelValues",
    "Largest",
    "Line",
    "Match",
    "OutagePart",
    "Part",
    "PathEstimate",
    "PathOutage",
    "PathPart",
    "ProtocolFault",
    "RatePhase",
    "RoundTrip",
    "Standing",
    "TimePart",
    "Tried",
    "Verdict",
]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one condition by one measure, for programs."""

    condition: str
    """The condition; empty if there is only one."""
    traffic: str | None = None
    """The class of traffic, if the scenario has classes."""
    measure: str
    """The measure by which the contenders are compared."""
    outcome: str
    """Whether a contender is best, and if not, why not."""
    best: list[str]
    """The best contenders: the one with the best value, followed by those that cannot be distinguished from it or
    are practically equal to it. Empty if there is none."""
    tied: list[str]
    """The contenders in `best` that cannot be distinguished from the first: which of them is best is unknown.
    Those that cannot be distinguished from the reference either are in `best` only if the reference is."""
    compared: str | None
    """The best contender other than the reference."""
    reference: str | None
    """The contender with which the others are compared; none if there is none."""
    difference_pct: Difference | None
    """Its difference from the reference, in percent."""
    runs_needed: int | None
    """If undecided, an estimate of the number of runs that would be decisive."""


@dataclass(frozen=True, kw_only=True)
class PathPart:
    """The part of a time that concerns one path."""

    path: str
    """The path that the waits concern."""
    mean_s: float
    """Its time in seconds, the mean over flows."""


@dataclass(frozen=True, kw_only=True)
class TimePart:
    """The part of a time that has one cause."""

    cause: str
    """The cause of this part."""
    mean_s: float
    """Its time in seconds, the mean over flows or bytes."""
    share_pct: float
    """Its share of the whole, in percent."""
    sum_ns: int | None = None
    """The sum over flows in nanoseconds, exactly; none for bytes."""
    by_path: list[PathPart] = dataclasses.field(default_factory=list)
    """By path, of all paths; the rest concerns no path. Empty for bytes."""


@dataclass(frozen=True, kw_only=True)
class OutagePart:
    """The time of waiting because of an outage of a path."""

    path: str
    """The path that was down."""
    from_s: float
    """The time at which it went down, in seconds from the start of the run."""
    until_s: float | None
    """The time at which it came up; none if it stayed down."""
    mean_s: float
    """The time in seconds, the mean over flows."""
    stopped: int = 0
    """The number of flows that did not finish: they had lost packets in it, and the run ended in it or nothing
    more was delivered."""


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest cause."""

    cause: str
    """The cause with the most time."""
    path: str | None
    """The path that has most of it, if it concerns paths."""
    mean_s: float
    """Its time in seconds, the mean over flows."""
    share_pct: float
    """Its share of the whole, in percent."""


@dataclass(frozen=True, kw_only=True)
class Excess:
    """The comparison with the fastest contender of the condition."""

    than: str
    """The fastest contender."""
    total_s: float
    """The difference of the mean times in seconds."""
    cause: str
    """The cause with the largest difference."""
    path: str | None
    """The path that has most of this difference, if the cause concerns paths."""
    cause_s: float
    """The difference of the mean times of this cause, in seconds."""
    at_least: bool = False
    """True if flows were not delivered: `total_s` is a lower bound, and `cause_s` counts up to the last delivered
    byte."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that was run, and its effect."""

    what: str
    """The change in words, such as `no loss on path 2`."""
    mean_s: float | None
    """The mean time of a flow in seconds; none if flows did not finish."""
    unfinished: int
    """The number of flows that did not finish."""
    effect_pct: Difference | None
    """The change of the mean completion time in percent, for bulk of the goodput, with an interval by a paired
    bootstrap over runs. The intervals of a contender's changes hold simultaneously with 95 %. None if no flow
    finished both with and without the change."""
    helps: bool | None
    """True if it helps: more flows finish, or the interval excludes zero, and the effect is not practically none.
    None if the runs cannot tell."""
    setting: bool
    """True for a setting of the hosts, false for a change of the network or its traffic."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Where the time of a contender's flows went in a condition."""

    scheduler: str
    """The contender's name."""
    congestion: str
    """Its congestion control."""
    condition: str
    """The condition; empty if there is only one."""
    traffic: str | None = None
    """The class of traffic; absent without classes."""
    path: str | None
    """The path of a plain TCP; none for Multipath TCP."""
    n: int
    """The number of flows."""
    completed: int
    """The number of flows delivered before the deadline. (Bulk: not aborted.)"""
    explained: int
    """The number of flows that are explained: the flows that delivered at least one byte."""
    mean_s: float | None
    """The mean time in seconds from the start of an explained flow to its last in-order delivery."""
    total_ns: int
    """The sum of these times in nanoseconds: exactly the sum of the parts."""
    parts: list[TimePart]
    """The parts of this time along the chain of waits, one for each cause."""
    byte_mean_s: float | None
    """The mean time of a byte in seconds, from its offer to its in-order delivery."""
    bytes: list[TimePart]
    """The parts of this time, one for each cause."""
    outages: list[OutagePart]
    """The parts of `outage`, by outage, in the order of paths and times."""
    longest_gap_s: float | None
    """The longest gap in the delivery of a flow in seconds, mean over flows."""
    fallbacks: int = 0
    """The number of flows that were to use Multipath TCP and gave it up."""
    largest: Largest | None
    """The largest cause of the parts."""
    excess: Excess | None
    """The comparison with the fastest contender of the condition; none for that one, and if the difference is
    practically none."""
    changes: list[Change]
    """The changes that were run, the best first."""
    sentence: str
    """The largest cause, the excess and the advised change, in words."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A contender over all points."""

    condition: str
    """The condition; empty where there is only one."""
    traffic: str | None = None
    """The class of traffic, if the scenario has classes."""
    scheduler: str
    """The contender's name."""
    best: int
    """Points at which the verdict names it among the best."""
    better: int
    """Points at which it is better than the reference."""
    equal: int
    """Points at which it is practically equal to the reference."""
    worse: int
    """Points at which it is worse than the reference."""
    undecided: int
    """Points at which it cannot be told apart from the reference."""
    incomplete: int
    """Points at which flows did not finish."""
    median_pct: float | None
    """The median over points of the difference from the reference, in percent; none for the reference."""
    least: tuple[float, int] | None
    """The least difference, and its point."""
    greatest: tuple[float, int] | None
    """The greatest difference, and its point."""


@dataclass(frozen=True, kw_only=True)
class KernelValues:
    """One direction of a subflow in the kernel of its sender, from samples of its socket (`tcp_info`)."""

    congestion: str
    """The congestion control, by the name of the kernel."""
    samples: int
    """Samples."""
    cwnd_p50_bytes: int | None
    """The congestion window: the median over the time with data in flight."""
    cwnd_max_bytes: int | None
    """Its largest value."""
    ssthresh_bytes: int | None
    """The last slow-start threshold; null while it is infinite."""
    srtt_p50_s: float | None
    """The smoothed round trip: the median over the time with data in flight."""
    min_rtt_s: float | None
    """The least round trip."""
    window_full_pct: float | None
    """Samples in which the congestion window was full, in percent of the samples with data in flight."""
    busy_s: float
    """The time in which data was queued or in flight."""
    receive_window_s: float
    """The part of that time in which the peer's receive window was full."""
    send_buffer_s: float
    """The part of that time in which the send buffer was too small."""
    rto_count: int | None
    """Retransmission timeouts; null before Linux 6.7."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """A value with the range in which it probably is."""

    value: float
    """The most probable value, in the unit of the field that has the estimate."""
    low: float
    """The lower end of the range."""
    high: float
    """The upper end of the range."""


@dataclass(frozen=True, kw_only=True)
class RatePhase:
    """A time in which the rate of a bottleneck did not change."""

    from_s: float
    """Its begin at the bottleneck, in seconds since the client began the connection; 0 for the first phase."""
    from_low_s: float
    """The earliest time at which it may have begun."""
    from_high_s: float
    """The latest time at which it may have begun."""
    rate_bps: Estimated
    """Its rate, of whole IP packets, in bit/s."""
    busy_s: float
    """The time in which packets waited at the bottleneck, in seconds."""


@dataclass(frozen=True, kw_only=True)
class BusyTime:
    """A time in which packets waited at the bottleneck."""

    from_s: float
    """Its begin at the bottleneck, in seconds since the client began the connection."""
    until_s: float
    """Its end."""


@dataclass(frozen=True, kw_only=True)
class PathOutage:
    """A time in which the path delivered nothing, and after which it was back."""

    down_s: Estimated
    """The time at which the path went down, in seconds since the client began the connection."""
    up_s: Estimated | None
    """The time at which it came back; null if it did not, before the capture ended."""
    packets: int | None
    """Data packets that were sent in vain; null at the receiver, which does not see them."""


@dataclass(frozen=True, kw_only=True)
class PathEstimate:
    """The path in one direction, as far as the packets show it."""

    rate_bps: Estimated | None
    """The rate of the bottleneck, of whole IP packets, in bit/s."""
    rate_source: str
    """The packets from which the rate was estimated."""
    rate_phases: list[RatePhase]
    """The phases of the rate, if it changed; empty if there is no evidence for a change."""
    rate_varies: bool
    """True if the rate varied all the time: then the phases are its course, and the rate is its mean while packets
    waited."""
    outages: list[PathOutage]
    """The times in which the path delivered nothing."""
    busy_s: float
    """The time in which packets waited at the bottleneck, in seconds."""
    busy: list[BusyTime]
    """The times from which the rate comes, in parts of up to 64 packets; the first 200 parts, without the ones of
    less than 12 packets."""
    rtt_s: Estimated | None
    """The round trip without queues and without the time that packets take to be transmitted."""
    queue_s: float
    """The largest delay above the least one, in seconds."""
    queue_bytes: int | None
    """The queue that this is at the rate, in bytes."""
    queue_was_full: bool
    """True if packets were lost when the queue was at its largest: it was full. Otherwise it is at least that
    large."""
    random_loss: Estimated
    """The probability of a loss while the queue was not full."""
    queue_losses: int
    """Losses at a full queue."""
    random_losses: int
    """Other losses."""
    random_drops: list[int]
    """The numbers of the packets of those losses among the data packets, from 1; the first thousand."""
    packets: int
    """Data packets that were sent, or arrived."""


@dataclass(frozen=True, kw_only=True)
class ApplicationTurn:
    """One turn of the application: a request with its response, or a burst."""

    at_s: float
    """Its begin, since the first packet of the connection."""
    up_bytes: int
    """Bytes of the client."""
    down_bytes: int
    """Bytes of the server."""
    pause_s: float
    """The time in which the application sent nothing before it; 0 for the first turn."""
    wait_s: float
    """The time that the server took for the response after it had the request."""
    time_s: float
    """The time until the last byte had arrived: from the request on, without that wait; of a burst from its first
    byte on, or from its last one if the application wrote it slowly. Of the first turn from the SYN on."""


@dataclass(frozen=True, kw_only=True)
class CapturedApplication:
    """The application of a connection."""

    pattern: str
    """Its pattern."""
    turns: list[ApplicationTurn]
    """Its turns, 512 bursts of each host at most; empty for a transfer and for both ways."""
    is_cut: bool
    """True if there were more."""
    idle_s: float
    """The sum of their pauses and waits, in seconds."""
    rate_bps: float | None
    """The rate at which the application wrote its bursts, in bit/s; null if the network was the limit."""


@dataclass(frozen=True, kw_only=True)
class RoundTrip:
    """A round trip as the capture shows it."""

    from_: str
    """`ack`: from data to its acknowledgement, at the sender. `timestamps`: from a timestamp to its echo."""
    samples: int
    """Round trips that were measured."""
    min_s: float
    """The least one."""
    p50_s: float
    """The median."""
    p95_s: float
    """The 95th percentile."""


@dataclass(frozen=True, kw_only=True)
class CapturedDirection:
    """One direction of a subflow."""

    packets: int
    """Packets in this direction, also without payload."""
    bytes: int
    """Payload, retransmissions included."""
    delivered_bytes: int
    """Unique bytes of the stream that arrived on this subflow first."""
    share_pct: float
    """Its share of the stream, in percent."""
    goodput_bps: float | None
    """Those bytes over the time from its first data to its last one."""
    data_segments: int
    """Segments with payload, as on the wire, retransmissions included."""
    retransmitted_segments: int
    """Retransmissions."""
    retransmitted_packets: int
    """The packets of the capture with them, which segmentation offload may have joined."""
    spurious_segments: int
    """Retransmissions that were not needed: the receiver reported the data twice (DSACK)."""
    reordered_segments: int
    """Segments that were overtaken."""
    dss_packets: int
    """Packets with a data sequence signal."""
    ce_packets: int
    """Packets with a mark of congestion."""
    duplicate_acks: int
    """Acknowledgements without progress while data was in flight."""
    rtt: RoundTrip | None
    """The round trip of its data."""
    path: PathEstimate | None
    """The path; null if it carried less than 10 segments."""
    kernel: KernelValues | None
    """The values of the sender's kernel; null unless they were sampled meanwhile (`anabranch record`)."""


@dataclass(frozen=True, kw_only=True)
class CapturedSubflow:
    """A TCP connection that carries the data of the connection."""

    from_: str
    """The address that opened it."""
    to: str
    """The address that accepted it."""
    opened_by_server: bool
    """True if the connection's server opened it."""
    captured: str
    """The place of the capture."""
    start_s: float
    """Its first packet."""
    connected_s: float | None
    """From its SYN to the third packet."""
    syn_count: int
    """SYNs."""
    backup: bool
    """True if a host asked for it to be a backup."""
    hmac: bool | None
    """Whether the codes of its join are right; null if they could not be verified."""
    directions: list[CapturedDirection]
    """The data from the connection's client and from its server."""
    ended: str | None
    """The end in words; null if the capture does not have it."""
    copies: int
    """Packets that were captured on a second interface too."""


@dataclass(frozen=True, kw_only=True)
class CapturedPart:
    """A part of a connection's time."""

    cause: str
    """The cause, as in the accounts of `explain`."""
    seconds: float
    """Its time."""
    share_pct: float
    """The share of the whole time, in percent."""


@dataclass(frozen=True, kw_only=True)
class CapturedStream:
    """The data of one direction."""

    delivered_bytes: int
    """Unique bytes that were delivered in order, as far as the capture shows it."""
    time_s: float
    """From the first data to the last acknowledgement, at the receiver to the last delivery."""
    fct_s: float | None
    """The completion time: from the client's first SYN until the receiver had the last byte that was delivered,
    without the time in which the sender had nothing to send. In a capture at the server half a round trip is
    added, for the SYN; in a capture at the sender half a round trip is subtracted, for the acknowledgement.
    Null without the handshake."""
    goodput_bps: float | None
    """Those bytes over that time."""
    data_segments: int
    """Segments with payload."""
    retransmitted_ratio: float
    """Retransmissions on the same subflow, of all data segments."""
    reinjected_ratio: float
    """Segments with bytes that another subflow had carried, of all data segments."""
    reinjected_bytes: int
    """Bytes that another subflow had carried."""
    duplicate_bytes: int
    """Bytes that arrived after they had been delivered."""
    holes: int
    """Times at which bytes began to wait for an earlier one."""
    blocked_s: float
    """The time in which bytes waited for an earlier one."""
    wait_mean_s: float
    """The mean wait of a byte for earlier ones."""
    most_waiting_bytes: int
    """The most bytes that waited."""
    longest_gap_s: float
    """The longest time between two advances of in-order delivery."""
    longest_gap_at_s: float | None
    """The time at which that gap began."""
    bursts: int | None
    """Periods of sending, each after a pause with nothing in flight; null in a capture at the receiver."""
    ended: bool
    """True if the end of the stream (DATA_FIN or FIN) is in the capture."""
    parts: list[CapturedPart]
    """The time by its cause, from the connection's first packet to its last one."""


@dataclass(frozen=True, kw_only=True)
class AnnouncedAddress:
    """An announced address."""

    by: str
    """`client` or `server`."""
    id: int
    """The address ID of ADD_ADDR or REMOVE_ADDR."""
    address: str
    """The address, with its port if it has one."""
    time_s: float
    """The time of the signal, from the connection's first packet."""
    echoed: bool
    """True if the peer has echoed it."""
    removed: bool
    """True if it was removed later."""
    used: bool
    """True if a subflow uses it."""


@dataclass(frozen=True, kw_only=True)
class ProtocolFault:
    """A fault against a rule."""

    rule: str
    """The standard and its section."""
    text: str
    """The fault."""
    time_s: float
    """The first time."""
    count: int
    """Packets."""


@dataclass(frozen=True, kw_only=True)
class CapturedConnection:
    """A connection with all of its subflows, or a plain TCP connection."""

    number: int
    """Its number in this result, from 1."""
    protocol: str
    """The protocol of the connection after its handshakes."""
    standard: str | None
    """The standard of its version: `RFC 8684` or `RFC 6824`; null for TCP."""
    client: str
    """The client's first address."""
    server: str
    """The server's first address."""
    captured: str
    """The place of the capture."""
    file: int
    """The place of its capture in `files`."""
    start_s: float
    """The first packet."""
    connected_s: float | None
    """From the first SYN to the third packet of the handshake; null without the handshake."""
    duration_s: float
    """From the first packet to the last one."""
    tokens: list[str | None]
    """The tokens of client and server, in hexadecimal."""
    fallback: str | None
    """The reason that it continued as TCP."""
    by_continuity: bool
    """True if subflows were tied to it by their data sequence numbers, since their handshakes are missing."""
    subflows: list[CapturedSubflow]
    """The subflows, in the order of their first packets."""
    streams: list[CapturedStream]
    """The data from the client and from the server."""
    application: CapturedApplication
    """The pattern of the application, and its turns."""
    addresses: list[AnnouncedAddress]
    """Announced addresses."""
    priority_changes: int
    """MP_PRIO options."""
    outcome: str
    """The end in words."""
    faults: list[ProtocolFault]
    """Faults against rules."""
    sentences: list[str]
    """The largest cause of its time, and remarks, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """A measure of the capture and of its simulation."""

    measure: str
    """Its name and unit."""
    captured: float
    """Its value in the capture."""
    simulated: float
    """Its value in the simulation: of times the median of the runs."""
    ci95: Interval | None
    """The 95 % interval of the mean of times."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The verdict on a part of a claim."""

    name: str
    """The key `part` of its checks."""
    status: str
    """Whether all checks of the part hold."""
    variant: str | None = None
    """The variant with which it holds, if it does not hold without."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A judgement in numbers and words."""

    condition: str
    """The condition; empty if there is only one."""
    status: str
    """Whether the required relation holds under this condition."""
    of: float | None
    """The mean of the contender; none if it has none."""
    to: float | None
    """The mean of that with which it is compared."""
    value: float | None
    """The judged ratio, difference or mean."""
    interval: tuple[float, float] | None
    """Its 95 % interval."""
    runs: int
    """The number of paired runs."""
    words: str
    """The values above as a sentence for the report."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A check with its judgements."""

    part: str = ""
    """The part of the claim to which it belongs; empty if the claim has no parts."""
    same: bool = False
    """Whether the variant changes nothing of it."""
    source: str
    """The scenario, plan or simulation."""
    required: str
    """The required relation, in words."""
    names: tuple[str, str | None]
    """The contender, and that with which it is compared."""
    unit: str
    """The unit of both."""
    lines: list[Line]
    """The judgements, by condition."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result with a variant."""

    name: str
    """The name of the variant."""
    what: str
    """The difference."""
    status: str
    """The status of the claim with it."""
    checks: list[Checked]
    """The judgements of each check with the variant, in the order of the claim."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a claim."""

    id: str
    """The claim's identifier."""
    paper: str
    """The paper's identifier, such as `dmptcp`."""
    figure: str
    """The figure, table or section."""
    kind: str
    """`Kind::name`."""
    claim: str
    """The statement of the paper, in our words."""
    status: str
    """The status over all checks and variants."""
    evidence: str
    """The measured values in words, the name of the test, or the reason that there is none."""
    numbers: str
    """The paper's numbers."""
    reason: str
    """The reason for the tolerance."""
    finding: str
    """The finding, for a reader of the paper."""
    checks: list[Checked]
    """The checks of the plain result."""
    variants: list[Tried]
    """The variants that were tried."""
    parts: list[Part] = dataclasses.field(default_factory=list)
    """The verdicts on its parts; empty if it has none."""
    build: str = ""
    """The version and commit of the program that judged it, if another program judged the whole record: rows are
    judged again one by one."""
