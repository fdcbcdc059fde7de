// What `anabranch report` puts into the page. Inputs have a kind; a page that does not know a kind says so and shows the others.

import type { Row } from "./records";

export type { Row } from "./records";

export interface Interval { mean: number | null; ci95: [number, number] | null }

export interface Verdict {
  condition: string;
  traffic?: string;
  measure: string;
  outcome: string;
}

export interface Party {
  scheduler: string;
  flow: number | null;
  flows: number;
  goodput_bps: Interval | null;
  share_pct: number | null;
  fair_share_pct: number | null;
  vs_fair_pct: Interval | null;
  balance: string;
}

export interface Condition {
  name: string;
  paths: string[];
  profile: string;
  direction: string;
  queues: string[];
  initial: string;
  initial_choice: string;
  phases: Record<string, number | boolean> | null;
  ideal_sum_bps: number | null;
  other_starts: { path: string; runs: number; changes: { scheduler: string; difference_pct: Interval | null }[] }[];
}

export interface Comparison {
  version: string;
  commit: string | null;
  schema: number;
  command: string[];
  scenario_hash: string;
  seed: number | string;
  runs: number;
  reference: string | null;
  min_effect_pct: number;
  verdict: string;
  verdicts: Verdict[];
  rows: Row[];
  fairness_verdict: string | null;
  fairness: { condition: string; scheduler: string; jain: Interval | null; parties: Party[]; flows: Party[] }[];
  conditions: Condition[];
}

/** The flows of a samples file, by column; `condition`, `scheduler` and `traffic` are places in the lists of names. With classes a row is
 * a flow, a request or a burst, and `fct_s` is the time of the class's measure. */
export interface Samples {
  file: string;
  conditions: string[];
  schedulers: string[];
  traffics?: string[];
  condition: number[];
  scheduler: number[];
  traffic?: number[];
  run: number[];
  flow: number[];
  part?: (number | null)[];
  fct_s: (number | null)[];
}

export interface Dimension { name: string; unit: string | null; logarithmic: boolean }

export interface SweepPoint {
  point: number;
  values: (number | string)[];
  scenario_hash: string;
  runs: number;
  rows: Row[];
}

/** A column of whole numbers, packed: series.ts unpacks it. */
export type Packed = string;

export interface Subflow {
  id: number;
  name: string;
  path: number | null;
  t_ns: Packed;
  cwnd_bytes: Packed;
  ssthresh_bytes: Packed;
  inflight_bytes: Packed;
  srtt_us: Packed;
}

export interface Stream {
  flow: number;
  direction: string;
  subflows: Subflow[];
  thinned_ns: number;
  sent: { t_ns: Packed; from: Packed; to: Packed; subflow: Packed; kind: Packed };
  acks: { t_ns: Packed; ack: Packed; edge: Packed };
}

export interface RecordedFlow {
  name: string;
  /** The class of traffic and its kind, of a scenario with classes. */
  traffic?: string;
  kind?: string;
  own: boolean;
  direction: string;
  start_ns: number;
  size_bytes: number | null;
  outcome: string;
  fct_ns: number | null;
  goodput_bps: number | null;
}

export interface RecordedRun {
  condition: string;
  scheduler: string;
  paths: string[];
  /** The times in which paths are down; `until_ns` is null if one does not end. */
  outages: { path: string; from_ns: number; until_ns: number | null }[];
  complete: boolean;
  end_ns: number;
  flows: RecordedFlow[];
  jain: number | null;
  bytes_by_path: number[];
  goodput: { bin_ns: number; bytes: number[] };
  reordering: { segments: number; stuck: number; steps: [number, number][] };
  queues: { link: string; t_ns: Packed; bytes: Packed; dropped: Packed }[];
  links: number;
  streams: Stream[];
}

export interface ExplainedRow {
  scheduler: string;
  condition: string;
  path: string | null;
  n: number;
  completed: number;
  mean_s: number | null;
  parts: { cause: string; mean_s: number; share_pct: number }[];
  changes: { what: string; effect_pct: Interval; helps: boolean | null }[];
  sentence: string;
}

export interface Explanation {
  version: string;
  commit: string | null;
  command: string[];
  scenario_hash: string;
  seed: number | string;
  runs: number;
  flow: number | null;
  rows: ExplainedRow[];
}

export type Input =
  | { kind: "explanation"; file: string; explanation: Explanation }
  | {
      kind: "recording";
      file: string;
      version: string;
      commit: string | null;
      command: string[];
      complete: boolean;
      reason: string | null;
      scenario: string;
      scenario_hash: string;
      seed: number | string;
      run: number | null;
      /** The flow that was asked for, from 0. */
      flow: number | null;
      runs: RecordedRun[];
      lost: string[];
    }
  | { kind: "comparison"; file: string; comparison: Comparison; samples: Samples | null }
  | {
      kind: "sweep";
      file: string;
      version: string;
      commit: string | null;
      command: string[] | null;
      design: string;
      plan: string;
      points: number;
      dimensions: Dimension[];
      results: SweepPoint[];
    };

export interface Report { report: number; version: string; commit: string | null; command: string[]; inputs: Input[] }
