// Generated from the structs of crates/ by tools/typings.py, which also compares it.

import type { Difference, Interval, Row } from "./records";

export type { Difference, Interval, Row } from "./records";

/** A column of whole numbers, packed: series.ts unpacks it. */
export type Packed = string;

/** The measure by which contenders are compared. */
export type Measure =
  | "mean_time"
  | "goodput"
  | "p95"
  | "response_time"
  | "waiting"
  | "bitrate"
  | "delay"
  | "burst_delay";

/** The outcome of a comparison. */
export type Outcome =
  | "best"
  | "equal"
  | "undecided"
  | "incomplete"
  | "single_run"
  | "alone";

/** The verdict of one condition by one measure, for programs. */
export interface Verdict {
  /** The condition; empty if there is only one. */
  condition: string;
  /** The class of traffic, if the scenario has classes. */
  traffic?: string;
  /** The measure by which the contenders are compared. */
  measure: Measure;
  /** Whether a contender is best, and if not, why not. */
  outcome: Outcome;
  /** The best contenders: the one with the best value, followed by those that cannot be distinguished from it or are practically equal to it. Empty if there is none. */
  best: string[];
  /** The contenders in `best` that cannot be distinguished from the first: which of them is best is unknown. Those that cannot be distinguished from the reference either are in `best` only if the reference is. */
  tied: string[];
  /** The best contender other than the reference. */
  compared: string | null;
  /** The contender with which the others are compared; none if there is none. */
  reference: string | null;
  /** Its difference from the reference, in percent. */
  difference_pct: Difference | null;
  /** If undecided, an estimate of the number of runs that would be decisive. */
  runs_needed: number | null;
}

/** The comparison of a share with the fair one. */
export type Balance =
  | "more"
  | "less"
  | "equal"
  | "undecided"
  | "single_run";

/** A mean and its interval. */
export interface Estimate {
  /** The mean over runs. */
  mean: number;
  /** Its 95 % interval, by bootstrap over runs; none for a single run. */
  ci95: Interval | null;
}

/** A party: a contender's flows, the plain TCPs that compete with them, or one of these flows. */
export interface Party {
  /** The row of the table to which it belongs. */
  scheduler: string;
  /** The number of the flow; none for all flows of the row together. */
  flow: number | null;
  /** The number of flows in each run. */
  flows: number;
  /** The mean goodput of a flow, in bit/s. */
  goodput_bps: Estimate;
  /** The share of all goodput, in percent. */
  share_pct: number;
  /** The fair share of all goodput, in percent. */
  fair_share_pct: number;
  /** 100 (share / fair share - 1), in percent. */
  vs_fair_pct: Difference;
  /** The share of the bytes that each path delivered, in percent; null for a path that delivered none. */
  share_by_path_pct: (number | null)[];
  /** The comparison of the share with the fair one. */
  balance: Balance;
  /** If undecided, an estimate of the number of runs that would be decisive. */
  runs_needed: number | null;
}

/** The fairness of a contender under a condition. */
export interface Fairness {
  /** The condition; empty if there is only one. */
  condition: string;
  /** The contender's name. */
  scheduler: string;
  /** The mean over runs of Jain's index of the goodputs of all flows: 1 if all are equal, 1/n if one of n has everything. */
  jain: Estimate;
  /** The contender's flows and the competing TCPs, each together; empty without competing TCPs. */
  parties: Party[];
  /** Each flow, if they are bulk and not too many. */
  flows: Party[];
}

/** The effect of another start on a contender. */
export interface StartChange {
  /** The contender's name. */
  scheduler: string;
  /** The difference of its mean completion time there from the comparison's start in the same runs, in percent; for bulk the goodput. All intervals of a condition hold simultaneously with 95 %. None if some flows did not end in time there, or none did in the comparison. */
  difference_pct: Difference | null;
  /** The number of its flows there. */
  n: number;
  /** The number of those that were delivered. (Bulk: not aborted.) */
  completed: number;
}

/** Another path for the initial subflow. */
export interface OtherStart {
  /** The path on which the connections of these runs began. */
  path: string;
  /** The number of runs of each contender that started there. */
  runs: number;
  /** Its effect on each multipath contender. */
  changes: StartChange[];
}

/** A first path that matters more than the scheduler. */
export interface DecisiveStart {
  /** The name of the other path. */
  path: string;
  /** The best multipath contender. */
  scheduler: string;
  /** The effect of starting there. */
  difference_pct: Difference;
  /** The difference of the worst multipath contender from the best, in percent (goodput: of the best from the worst). */
  spread_pct: number;
}

/** The results of a plain TCP that uses only this path, in the selection runs. */
export interface SinglePath {
  /** The path that the plain TCP uses. */
  path: string;
  /** True if `tcp` uses this path. */
  chosen: boolean;
  /** The number of its selection runs. */
  runs: number;
  /** The number of flows; of requests and bursts, the number of these. */
  n: number;
  /** The number of these that were delivered. (Bulk: not aborted.) */
  completed: number;
  /** The mean of their times; one that was not delivered counts with the time until its deadline. None for bulk. */
  mean_s: number | null;
  /** The mean goodput of a flow, in bit/s; one that failed counts with the same time as one that ran until the end. */
  goodput_bps: number | null;
}

/** The bound for events that no run has shown. */
export interface UnseenEvents {
  /** Events of a lower probability than one in this number of runs are not excluded. */
  one_in: number;
  /** The most by which such events change a contender's mean, in percent. */
  most_pct: number;
  /** The contender that they change most. */
  scheduler: string;
  /** The class of traffic that has this mean, if the scenario has classes. */
  traffic?: string;
  /** True if they are more than half of an interval. */
  dominates: boolean;
}

/** The path of `tcp` for a class of traffic. */
export interface ClassPath {
  /** The name of the class. */
  traffic: string;
  /** The path of `tcp` for the class. */
  path: string;
}

/** The limits of the phases of a condition. */
export interface PhaseLimits {
  /** The latest start of a flow, in seconds. */
  start_s: number;
  /** The longest delay before a host opens additional subflows. */
  join_s: number;
  /** The largest change of a path's delay, in either direction. */
  delay_s: number;
  /** The longest additional delay of a packet. */
  jitter_s: number;
  /** True if traces begin at random positions. */
  traces: boolean;
}

/** The setting of a condition. */
export interface Condition {
  /** The name of the condition; empty if there is only one. */
  name: string;
  /** The number of runs of each contender. */
  runs: number;
  /** The bound for events that no run has shown, if there are any; none for a single run. */
  unseen: UnseenEvents | null;
  /** The names of the paths, in the order of `bytes_by_path`. */
  paths: string[];
  /** The name of the profile, such as `linux`. */
  profile: string;
  /** The congestion control of each contender, in their order. */
  congestion: string[];
  /** `upload` or `download`. */
  direction: string;
  /** The queue of each path. */
  queues: string[];
  /** The path of `tcp` for each class of traffic that uses the contender; empty without classes. */
  class_paths: ClassPath[];
  /** The queues of the links that the data of several paths share. */
  shared_queues: string[];
  /** The number of traces that start at random and independent points. Both directions of a path count once, and so do all traces that start together, if others do not. */
  independent_traces: number;
  /** The path of the initial subflow. */
  initial: string;
  /** The way it was chosen: `first` (the first one listed), `given`, `best` by the estimates, or `race`. */
  initial_choice: string;
  /** A host's estimate of each path beforehand, in seconds: `best` is the one with the least. */
  estimates_s: number[];
  /** The effects of starting on other paths; empty if they were not measured. */
  other_starts: OtherStart[];
  /** The other start that matters more than the scheduler; none if there is none. */
  decisive_start: DecisiveStart | null;
  /** The phases that each run draws; none if they are off. */
  phases: PhaseLimits | null;
  /** The maximum rate at which all paths together carry payload, in bit/s. */
  ideal_sum_bps: number;
  /** A plain TCP on each single path, in the selection runs; empty without `tcp`, or with one path. */
  single_paths: SinglePath[];
}

/** The data that a path carried for a contender, and its cost. Paths with a price or a quota are the reason to count. */
export interface PathUsage {
  /** The condition's name; empty if it is the only one. */
  condition: string;
  /** The contender's name. */
  scheduler: string;
  /** The name of the path. */
  path: string;
  /** Bytes that the client sent over it, with IP headers: the mean over runs. */
  up_bytes: number;
  /** Bytes that the client received over it. */
  down_bytes: number;
  /** The cost of both. */
  cost: number;
  /** The number of runs in which a quota was exceeded; none without a quota. */
  over_quota: number | null;
  /** The number of runs. */
  runs: number;
}

/** The cost of a simulation. The first four values are the same for the same seed. */
export interface Cost {
  /** Simulated time in seconds, over all runs. */
  simulated_s: number;
  /** Wall time in seconds. */
  wall_s: number;
  /** Packets crossing a link. */
  packet_hops: number;
  /** Segments sent with payload. */
  data_packets: number;
  /** Turns of the event loop. */
  events: number;
  /** The peak memory of the process, in bytes; none if the system does not report it. */
  peak_rss_bytes: number | null;
}

/** The results of a comparison. Serialised, they are the object that `compare --json` prints. */
export interface Comparison {
  /** The version of the program. */
  version: string;
  /** The commit from which the program was built, if known. */
  commit: string | null;
  /** The version of the keys. */
  schema: number;
  /** The version of the numbers: `RESULTS`. */
  results: number;
  /** The command line; empty if there was none. */
  command: string[];
  /** The hash of the scenario: `Scenario::hash`; empty without a scenario. */
  scenario_hash: string;
  /** The seed, from which the seeds of the runs are derived. */
  seed: number;
  /** The number of runs of each contender, in the condition with the most. */
  runs: number;
  /** The contender with which the others are compared. */
  reference: string | null;
  /** The difference in per cent below which two values are practically equal. */
  min_effect_pct: number;
  /** The best scheduler for this traffic, in a sentence. */
  verdict: string;
  /** The verdicts for programs: one for each condition and measure. */
  verdicts: Verdict[];
  /** One row for each condition and contender. */
  rows: Row[];
  /** The flows that get more or less than a fair share, in a sentence; none if each run has a single flow. */
  fairness_verdict: string | null;
  /** The shares of the flows, for each condition and contender with several flows in a run. */
  fairness: Fairness[];
  /** The data of each path and its cost, for each condition and contender; absent if no path has a price or a quota. */
  usage?: PathUsage[];
  /** The setting of each condition, and its best single path. */
  conditions: Condition[];
  /** The cost of the simulation. */
  performance: Cost;
}

/** A cause of a flow's time. Every nanosecond has exactly one. */
export type Cause =
  | "handshake"
  | "application"
  | "congestion_window"
  | "pacing"
  | "receive_window"
  | "send_buffer"
  | "scheduler"
  | "queueing"
  | "serialisation"
  | "propagation"
  | "retransmission"
  | "head_of_line"
  | "outage";

/** The part of a time that concerns one path. */
export interface PathPart {
  /** The path that the waits concern. */
  path: string;
  /** Its time in seconds, the mean over flows. */
  mean_s: number;
}

/** The part of a time that has one cause. */
export interface TimePart {
  /** The cause of this part. */
  cause: Cause;
  /** Its time in seconds, the mean over flows or bytes. */
  mean_s: number;
  /** Its share of the whole, in percent. */
  share_pct: number;
  /** The sum over flows in nanoseconds, exactly; none for bytes. */
  sum_ns?: number;
  /** By path, of all paths; the rest concerns no path. Empty for bytes. */
  by_path?: PathPart[];
}

/** The time of waiting because of an outage of a path. */
export interface OutagePart {
  /** The path that was down. */
  path: string;
  /** The time at which it went down, in seconds from the start of the run. */
  from_s: number;
  /** The time at which it came up; none if it stayed down. */
  until_s: number | null;
  /** The time in seconds, the mean over flows. */
  mean_s: number;
  /** The number of flows that did not finish: they had lost packets in it, and the run ended in it or nothing more was delivered. */
  stopped?: number;
}

/** The largest cause. */
export interface Largest {
  /** The cause with the most time. */
  cause: Cause;
  /** The path that has most of it, if it concerns paths. */
  path: string | null;
  /** Its time in seconds, the mean over flows. */
  mean_s: number;
  /** Its share of the whole, in percent. */
  share_pct: number;
}

/** The comparison with the fastest contender of the condition. */
export interface Excess {
  /** The fastest contender. */
  than: string;
  /** The difference of the mean times in seconds. */
  total_s: number;
  /** The cause with the largest difference. */
  cause: Cause;
  /** The path that has most of this difference, if the cause concerns paths. */
  path: string | null;
  /** The difference of the mean times of this cause, in seconds. */
  cause_s: number;
  /** True if flows were not delivered: `total_s` is a lower bound, and `cause_s` counts up to the last delivered byte. */
  at_least?: boolean;
}

/** A change that was run, and its effect. */
export interface Change {
  /** The change in words, such as `no loss on path 2`. */
  what: string;
  /** The mean time of a flow in seconds; none if flows did not finish. */
  mean_s: number | null;
  /** The number of flows that did not finish. */
  unfinished: number;
  /** The change of the mean completion time in percent, for bulk of the goodput, with an interval by a paired bootstrap over runs. The intervals of a contender's changes hold simultaneously with 95 %. None if no flow finished both with and without the change. */
  effect_pct: Difference | null;
  /** True if it helps: more flows finish, or the interval excludes zero, and the effect is not practically none. None if the runs cannot tell. */
  helps: boolean | null;
  /** True for a setting of the hosts, false for a change of the network or its traffic. */
  setting: boolean;
}

/** Where the time of a contender's flows went in a condition. */
export interface ExplainedRow {
  /** The contender's name. */
  scheduler: string;
  /** Its congestion control. */
  congestion: string;
  /** The condition; empty if there is only one. */
  condition: string;
  /** The class of traffic; absent without classes. */
  traffic?: string;
  /** The path of a plain TCP; none for Multipath TCP. */
  path: string | null;
  /** The number of flows. */
  n: number;
  /** The number of flows delivered before the deadline. (Bulk: not aborted.) */
  completed: number;
  /** The number of flows that are explained: the flows that delivered at least one byte. */
  explained: number;
  /** The mean time in seconds from the start of an explained flow to its last in-order delivery. */
  mean_s: number | null;
  /** The sum of these times in nanoseconds: exactly the sum of the parts. */
  total_ns: number;
  /** The parts of this time along the chain of waits, one for each cause. */
  parts: TimePart[];
  /** The mean time of a byte in seconds, from its offer to its in-order delivery. */
  byte_mean_s: number | null;
  /** The parts of this time, one for each cause. */
  bytes: TimePart[];
  /** The parts of `outage`, by outage, in the order of paths and times. */
  outages: OutagePart[];
  /** The longest gap in the delivery of a flow in seconds, mean over flows. */
  longest_gap_s: number | null;
  /** The number of flows that were to use Multipath TCP and gave it up. */
  fallbacks?: number;
  /** The largest cause of the parts. */
  largest: Largest | null;
  /** The comparison with the fastest contender of the condition; none for that one, and if the difference is practically none. */
  excess: Excess | null;
  /** The changes that were run, the best first. */
  changes: Change[];
  /** The largest cause, the excess and the advised change, in words. */
  sentence: string;
}

/** The explanation of a scenario. Serialised, it is the object that `explain --json` prints. */
export interface Explanation {
  /** The version of the program. */
  version: string;
  /** The commit from which the program was built, if known. */
  commit: string | null;
  /** The version of the keys. */
  schema: number;
  /** The version of the numbers: `RESULTS`. */
  results: number;
  /** The command line; empty if there was none. */
  command: string[];
  /** The hash of the scenario: `Scenario::hash`; empty without a scenario. */
  scenario_hash: string;
  /** The seed, from which the seeds of the runs are derived. */
  seed: number;
  /** The number of runs of each contender in each condition. */
  runs: number;
  /** The flow of each run that is explained, from 1; none: all of them. */
  flow: number | null;
  /** One row for each condition and contender. */
  rows: ExplainedRow[];
}

/** The flows of a samples file. `condition`, `scheduler` and `traffic` are places in the lists of names. */
export interface Samples {
  file: string;
  conditions: string[];
  schedulers: string[];
  /** The classes of traffic; empty without classes, as are `traffic` and `part`. */
  traffics?: string[];
  condition: number[];
  scheduler: number[];
  traffic?: number[];
  run: number[];
  flow: number[];
  /** The number of the request or burst within its flow. */
  part?: (number | null)[];
  /** The time of the class's measure. */
  fct_s: (number | null)[];
}

/** A comparison in a report. */
export interface ShownComparison {
  /** The file, as it was given. */
  file: string;
  /** The object of `compare --json`. */
  comparison: Comparison;
  /** Its single flows, if known. */
  samples: Samples | null;
}

/** An explanation in a report. */
export interface ShownExplanation {
  /** The file, as it was given. */
  file: string;
  /** The object of `explain --json`. */
  explanation: Explanation;
}

/** A swept key. */
export interface Dimension {
  /** The key, or several ones that change together. */
  name: string;
  /** The unit of its values; null where these are texts. */
  unit: string | null;
  /** True if its values are evenly spaced on a logarithmic scale. */
  logarithmic: boolean;
}

/** A point of a sweep. */
export interface SweepPoint {
  /** A number or a text for each key. */
  values: (number | string)[];
  /** The number of the point, from 0. */
  point: number;
  /** `crate::scenario::Scenario::hash` of the point. */
  scenario_hash: string;
  /** Runs of each contender. */
  runs: number;
  /** Packets crossing a link, in the runs of the last comparison at this point. */
  packet_hops: number;
  /** One for each condition and contender. */
  rows: Row[];
}

/** A sweep in a report, with the values of its points. */
export interface ShownSweep {
  /** Its directory. */
  file: string;
  /** The version of the program. */
  version: string;
  /** The commit from which it was built, if known. */
  commit: string | null;
  /** The last command that worked on it; null without `run.json`. */
  command: string[] | null;
  /** The way in which its points are chosen, such as `grid`. */
  design: string;
  /** The plan as it was written. */
  plan: string;
  /** The number of points; `results` has those that are done. */
  points: number;
  /** The swept keys. */
  dimensions: Dimension[];
  /** The points that are done. */
  results: SweepPoint[];
}

/** A time in which a path is down, in `run.json`. */
export interface RecordedOutage {
  /** The name of the path in the scenario. */
  path: string;
  /** Its beginning. */
  from_ns: number;
  /** Its end; none if it does not end. */
  until_ns: number | null;
}

/** Bytes delivered in order, by interval of time. */
export interface RecordedGoodput {
  /** The length of an interval. */
  bin_ns: number;
  /** The bytes delivered in each interval. */
  bytes: number[];
}

/** The distribution of out-of-order delays. */
export interface Reordering {
  /** The number of segments that arrived. */
  segments: number;
  /** The number of segments that never were in order. */
  stuck: number;
  /** Delays in nanoseconds and the share of the segments with at most that delay, ascending: all of them, or as many as a figure can show, the largest ones all. */
  steps: [number, number][];
}

/** The queue of a link over time. */
export interface RecordedQueue {
  /** The name of the link, such as `fast.up`. */
  link: string;
  /** Times. */
  t_ns: Packed;
  /** The maximum of the bytes in the queue since the time before. */
  bytes: Packed;
  /** The packets dropped since the time before. */
  dropped: Packed;
}

/** A subflow with its windows and round trips over time. */
export interface Subflow {
  /** The number of the subflow in its connection, from 0. */
  id: number;
  /** Its name: the name of its path where that is known. */
  name: string;
  /** Its path in the list of the run's, if known. */
  path: number | null;
  /** Times of the following columns. */
  t_ns: Packed;
  /** Congestion window. */
  cwnd_bytes: Packed;
  /** Slow-start threshold; -1 while it is infinite. */
  ssthresh_bytes: Packed;
  /** Bytes in flight. */
  inflight_bytes: Packed;
  /** Smoothed round-trip time; -1 before the first sample. */
  srtt_us: Packed;
}

/** Data sent, by column. */
export interface Sent {
  /** Times. */
  t_ns: Packed;
  /** The first offset. */
  from: Packed;
  /** The offset after the data. */
  to: Packed;
  /** The place in `Stream::subflows`. */
  subflow: Packed;
  /** The place in `KINDS`. */
  kind: Packed;
}

/** Data acknowledgements that the sender received, by column. */
export interface Acks {
  /** Times. */
  t_ns: Packed;
  /** The DATA_ACK. */
  ack: Packed;
  /** The right edge of the peer's window; -1 if it is unknown. */
  edge: Packed;
}

/** A flow in detail: the stream of its data. */
export interface Stream {
  /** The flow, from 0. */
  flow: number;
  /** `up` or `down`. */
  direction: string;
  /** The subflows, in the order of their numbers. */
  subflows: Subflow[];
  /** The time within which events are one; zero if all are shown. */
  thinned_ns: number;
  /** Data sent. */
  sent: Sent;
  /** Data acknowledgements. */
  acks: Acks;
}

/** A flow of a recorded run, as a whole. */
export interface RecordedFlow {
  /** The name that tables have for it. */
  name: string;
  /** The class of its traffic, if there are classes. */
  traffic?: string;
  /** The kind of the class. */
  kind?: string;
  /** False for competing and background flows, and for flows of a class that does not use the contender. */
  own: boolean;
  /** The stream of its data: `up` or `down`. */
  direction: string;
  /** The time at which it started, from the start of the run. */
  start_ns: number;
  /** Its size; missing for bulk. */
  size_bytes: number | null;
  /** `completed`, `running`, `waiting`, or the reason of its failure. */
  outcome: string;
  /** The time from its start to the delivery of its last byte. */
  fct_ns: number | null;
  /** Its goodput in bit/s. */
  goodput_bps: number | null;
}

/** A run of one contender. */
export interface RecordedRun {
  /** The condition; empty if there is only one. */
  condition: string;
  /** The contender. */
  scheduler: string;
  /** The names of its paths, in the order of `bytes_by_path`. */
  paths: string[];
  /** The times in which its paths are down, as far as they begin before its end. */
  outages: RecordedOutage[];
  /** True if the run ended. */
  complete: boolean;
  /** The time of the last event. */
  end_ns: number;
  /** All flows, in the order of their numbers. */
  flows: RecordedFlow[];
  /** Jain's index of the goodput of all flows that have one; none for fewer than two, and for several classes of traffic or one with an application that decides when it sends. */
  jain: number | null;
  /** The bytes that arrived first by each path, of the contender's flows together. */
  bytes_by_path: number[];
  /** The bytes delivered in order in each interval, of the contender's flows together. */
  goodput: RecordedGoodput;
  /** The time that a segment waited for earlier data at the receiver, of the contender's flows together. */
  reordering: Reordering;
  /** The queues of the links with the largest ones. */
  queues: RecordedQueue[];
  /** The number of links in the recording; `queues` has some of them. */
  links: number;
  /** The flows in detail. */
  streams: Stream[];
}

/** A run directory as figures need it. */
export interface Recording {
  /** The directory. */
  file: string;
  /** The version of the program. */
  version: string;
  /** The commit from which it was built, if known. */
  commit: string | null;
  /** Its command line. */
  command: string[];
  /** True if all runs ended and all tables are on disk. */
  complete: boolean;
  /** The reason of an early end, if known. */
  reason: string | null;
  /** The key `name` of the scenario; empty without one. */
  scenario: string;
  /** SHA-256 of the canonical scenario, in hexadecimal digits. */
  scenario_hash: string;
  /** The seed of the scenario. */
  seed: number;
  /** The run of a comparison that was replayed. */
  run: number | null;
  /** `Details::flow`. */
  flow: number | null;
  /** The runs with tables. */
  runs: RecordedRun[];
  /** The runs that have no tables, because they were killed. */
  lost: string[];
}

/** A result in a report. */
export type Input =
  | ({ kind: "comparison" } & ShownComparison)
  | ({ kind: "explanation" } & ShownExplanation)
  | ({ kind: "sweep" } & ShownSweep)
  | ({ kind: "recording" } & Recording);

/** The data of the page. A page that does not know a kind of input shows the others. */
export interface Report {
  /** `VERSION`. */
  report: number;
  /** The version of this program. */
  version: string;
  /** The commit from which this program was built, if known; filled in by the caller. */
  commit: string | null;
  /** The command line; filled in by the caller. */
  command: string[];
  /** The results in their order. */
  inputs: Input[];
}
