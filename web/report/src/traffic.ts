// Classes of traffic: what the values of each kind are called.

/** The words for the values of a class. */
export interface Words {
  /** The measure of one value, and of several. */
  time: string;
  times: string;
  /** What has a value, and several of them. */
  one: string;
  many: string;
  /** What happened to those that have a value. */
  done: string;
  /** What a lower value is. */
  less: string;
  /** What a value is, where its name does not tell. */
  note: string;
}

const TRANSFER: Words = { time: "completion time", times: "completion times", one: "flow", many: "flows", done: "delivered", less: "faster", note: "" };

const KINDS: Record<string, Words> = {
  transfer: TRANSFER,
  requests: { time: "response time", times: "response times", one: "request", many: "requests", done: "answered", less: "faster",
    note: "A response time is the time from a request to the last byte of its response." },
  "on-off": { time: "delay", times: "delays of bursts", one: "burst", many: "bursts", done: "delivered", less: "less delay",
    note: "The delay of a burst is the time from the writing of its last block until its delivery." },
  udp: { time: "one-way delay", times: "one-way delays", one: "stream", many: "streams", done: "sent", less: "less delay",
    note: "The value of a stream is the mean one-way delay of its datagrams that arrived." },
  video: { time: "waiting time", times: "waiting times", one: "video", many: "videos", done: "played to the end", less: "less waiting",
    note: "The waiting time of a video is its startup and all its stalls together." },
};

const UNKNOWN: Words = { ...TRANSFER, time: "time of the measure", times: "times of the measure" };

/** The words for a class; without classes, and for transfers, those of completion times. */
export function words(traffic: string | null, kind: string | undefined): Words {
  if (traffic === null) return TRANSFER;
  return (kind !== undefined && Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined) ?? UNKNOWN;
}

/** True where the goodput of a flow depends on the network, and not on when its application sends. */
export const hasGoodput = (traffic: string | null, kind: string | undefined): boolean => traffic === null || kind === "transfer";

/** The classes of rows in their order; null is the only one of a scenario without classes. */
export const classes = (rows: { traffic?: string }[]): (string | null)[] => [...new Set(rows.map((row) => row.traffic ?? null))];

/** A title with the class before it. */
export const titled = (traffic: string | null, title: string): string => (traffic === null ? title : `${traffic}: ${title}`);

/** A title with a capital. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
