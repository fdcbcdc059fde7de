// Generated from the rows of crates/measure/src/measures.rs; a test there compares this file, and rewrites it
// with ANABRANCH_BLESS=1.

/** The ends of a 95 % interval. */
export type Interval = [number, number];

export type Reading = "better" | "equal" | "worse" | "undecided" | "incomplete";

/** Mean, percentiles and interval of a time in seconds. */
export interface Statistics {
  /** The mean over all flows of all runs that have a value. */
  mean: number | null;
  /** The median. */
  p50: number | null;
  /** The 95th percentile; none for fewer than 20 flows. */
  p95: number | null;
  /** The 99th percentile; none for fewer than 100 flows. */
  p99: number | null;
  /** The greatest value. */
  max: number | null;
  /** The 95 % interval of the mean, by bootstrap over runs and with the bound for events that no run has shown; none for a single run. */
  ci95: Interval | null;
}

/** A difference from the reference in per cent; negative is less. */
export interface Difference {
  /** The difference of the two means, in per cent of the reference's; negative is less. */
  mean: number;
  /** Its 95 % interval, by paired bootstrap over runs; none for a single run. All intervals of one family hold simultaneously. */
  ci95: Interval | null;
}

/** The values of each run, in order from run 0. */
export interface ByRun {
  /** The flows that were delivered; of bulk, the flows that were not aborted. */
  completed: number[];
  /** The mean completion time of the delivered flows; none without any, and for bulk. */
  fct_s: (number | null)[];
  /** The mean goodput of a flow, in bit/s. */
  goodput_bps: (number | null)[];
}

/** The measures of videos. */
export interface Video {
  /** Time until playback starts. */
  startup_s: Statistics;
  /** Stalls of a video. */
  stalls: number;
  /** The time in them. */
  stalled_s: number;
  /** The mean bitrate of the delivered segments. */
  bitrate_bps: number | null;
  /** Changes of the bitrate in a video. */
  switches: number;
}

/** The measures of streams of datagrams. */
export interface Datagrams {
  /** Datagrams sent. */
  sent: number;
  /** Datagrams received, each counted once. */
  received: number;
  /** Datagrams lost, of those sent. */
  lost_ratio: number;
  /** The median of the one-way delays of a stream; mean over streams. */
  delay_p50_s: number | null;
  /** The 95th percentile of the one-way delays of a stream; mean over streams. */
  delay_p95_s: number | null;
  /** The 99th percentile; mean over streams. */
  delay_p99_s: number | null;
  /** The greatest delay; over streams the greatest of all. */
  delay_max_s: number | null;
  /** The mean difference between the delays of successive datagrams of a stream (which RFC 3550's jitter smooths); mean over streams. */
  jitter_s: number | null;
}

/** The results of a contender in a condition, of all its traffic or of one class. */
export interface Row {
  /** The contender; `tcp beside X` for plain TCPs beside X's flows. */
  scheduler: string;
  /** Its congestion control. */
  congestion: string;
  /** The condition's name; empty where there is only one. */
  condition: string;
  /** The path of a plain TCP; null for Multipath TCP. */
  path: string | null;
  /** Flows (of a class: also requests, bursts, videos, streams), over all runs. */
  n: number;
  /** Those that were delivered before the deadline; for bulk those that were not broken off. */
  completed: number;
  /** The other ones, if their connection ended before the deadline. */
  failed: number;
  /** Completion time, of the flows that were delivered; null for bulk. Of a class: the response times of requests, the delays of bursts, the waiting times of videos, the mean delays of streams. */
  fct_s: Statistics;
  /** Time until everything was acknowledged. */
  acked_s: Statistics;
  /** Goodput of a flow: unique bytes over the time they took, or over the time the flow had; mean over flows. */
  goodput_bps: number | null;
  /** The interval of the mean goodput. */
  goodput_ci95_bps: Interval | null;
  /** 100 (mean / mean of the reference - 1), of the completion time, for bulk of the goodput; its interval is corrected for the number of contenders. */
  vs_reference_pct: Difference | null;
  /** At a point of a sweep: the interpretation of the difference, `better`, `equal`, `worse`, `undecided` or `incomplete`. */
  reading?: Reading;
  /** At a point of a sweep: whether the verdict names it among the best. */
  best?: boolean;
  /** Data segments retransmitted on their own subflow, of all. */
  retransmitted_ratio: number;
  /** Data segments reinjected on another subflow, of all. */
  reinjected_ratio: number;
  /** Retransmission timeouts of a flow. */
  rto_count: number;
  /** The longest gap in delivery, over flows that received something. */
  longest_gap_s: Statistics;
  /** Subflows that sent payload. */
  subflows_used: number;
  /** Unique bytes that first arrived by each path, in the order of the condition's paths. */
  bytes_by_path: number[];
  /** The lower bound of the completion time, of the delivered flows; for bulk of the time to deliver what was delivered. */
  lower_bound_s: number | null;
  /** The time over the lower bound; over flows the ratio of the means. */
  vs_lower_bound: number | null;
  /** The values of each run, from run 0; not at a point of a sweep. */
  by_run?: ByRun;
  /** The class of traffic, where the scenario has classes. */
  traffic?: string;
  /** Its kind. */
  kind?: string;
  /** `contender`, `tcp` or `udp`. */
  transport?: string;
  /** Of videos. */
  video?: Video;
  /** Of datagrams. */
  datagrams?: Datagrams;
}
