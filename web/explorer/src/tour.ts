// The guided tour: ten states of the page, and the reason for the figures in each. A test computes every state, and holds the
// sentences about it.

import { button, el } from "../../report/src/dom";

/** A ratio of two contenders' mean times that a text relies on. */
export interface Claim {
  of: string;
  to: string;
  least: number;
  most: number;
  /** Another state than the state of the step. */
  state?: string;
}

export interface Step {
  title: string;
  text: string;
  state: string;
  claims: Claim[];
  /** The part of the page that the step opens. */
  opens?: "inside" | "map";
}

const EQUAL = "path=one,rate=10,rtt=40,queue=100&path=two,rate=10,rtt=40,queue=100&runs=10";
const UNEQUAL = "path=fast,rate=10,rtt=20,queue=50&path=slow,rate=0.5,rtt=300,queue=100&size=1000&runs=10";
const LONG = "path=fast,rate=20,rtt=20,queue=100&path=slow,rate=5,rtt=200,queue=100&runs=10";
const LOSSY = "path=one,rate=20,rtt=30,loss=0.5,queue=100&path=two,rate=20,rtt=30,loss=0.5,queue=100&size=5000&schedulers=tcp,min_rtt&runs=10";

export const STEPS: Step[] = [
  {
    title: "Two equal paths",
    text: "A download of 1 MB over two paths of 10 Mbit/s. Plain TCP (tcp) uses one path, the better one. Multipath TCP uses both, and a scheduler " +
      "chooses the path of each packet, here the scheduler min_rtt. The download takes about two thirds of the time of plain TCP, not half: the second path joins " +
      "a round trip later, and each path starts with few packets per round trip. Raise the size to 10,000 KB: the start matters less, and the time comes close to a half.",
    state: `${EQUAL}&size=1000&schedulers=tcp,min_rtt`,
    claims: [
      { of: "min_rtt", to: "tcp", least: 0.6, most: 0.7 },
      { of: "min_rtt", to: "tcp", least: 0.5, most: 0.55, state: `${EQUAL}&size=10000&schedulers=tcp,min_rtt` },
    ],
  },
  {
    title: "A short flow gains nothing",
    text: "The same paths, but only 14 KB. That fits into the first congestion window, the amount of data that may be sent on a path before the first " +
      "acknowledgement arrives. So everything is sent before the second path has joined. Many downloads on the Web are this short. A second path does not make " +
      "them faster; it only helps if the first one fails.",
    state: `${EQUAL}&size=14&schedulers=tcp,min_rtt`,
    claims: [{ of: "min_rtt", to: "tcp", least: 0.98, most: 1.02 }],
  },
  {
    title: "A slow path can hurt",
    text: "Now the second path has 0.5 Mbit/s and a round trip of 300 ms. min_rtt takes the path with the shortest round trip that has space in " +
      "its congestion window, so it uses the slow path as soon as the window of the fast one is full. A download ends when all bytes have arrived, and here the " +
      "last ones are on the slow path. Its short queue drops a third of the packets, and each retransmission takes another round trip. The download takes more " +
      "than four times as long as without the slow path.",
    state: `${UNEQUAL}&schedulers=tcp,min_rtt`,
    claims: [{ of: "min_rtt", to: "tcp", least: 4, most: 6 }],
  },
  {
    title: "Schedulers that look ahead",
    text: "The schedulers ecf and blest estimate when data on the slow path would arrive. Here they conclude that it is faster to wait until the window of the " +
      "fast path has space again, and they are as fast as plain TCP. There is little to gain: the slow path would add 5 % to the rate at best.",
    state: `${UNEQUAL}&schedulers=tcp,min_rtt,ecf,blest`,
    claims: [
      { of: "ecf", to: "tcp", least: 0.97, most: 1.03 },
      { of: "blest", to: "tcp", least: 0.97, most: 1.03 },
    ],
  },
  {
    title: "Head-of-line blocking",
    text: "This step opens 'Look inside' below: press Play there. The bar is the stream of bytes at the receiver. Blue data have been delivered to the " +
      "program. Orange data have arrived on the fast path and wait behind a hole: earlier data are missing, because they are still on the slow path or were " +
      "lost there. The program receives data only in order, so it gets nothing until the hole is filled. The bars below the graphs divide the time of a " +
      "download by its causes.",
    state: `${UNEQUAL}&schedulers=min_rtt,ecf`,
    claims: [{ of: "ecf", to: "min_rtt", least: 0.15, most: 0.3 }],
    opens: "inside",
  },
  {
    title: "The receive buffer",
    text: "Data that wait behind a hole need memory at the receiver, here a receive buffer of 100 KB. When it is full, the fast path has to stop too: " +
      "min_rtt is a third slower than plain TCP on the fast path. blest foresees this and leaves the slow path idle. Set the receive buffer to 5,000 KB: both " +
      "take the same time, close to the time of plain TCP.",
    state: `${LONG}&size=4000&schedulers=tcp,min_rtt,blest&buffer=100`,
    claims: [
      { of: "min_rtt", to: "tcp", least: 1.25, most: 1.42 },
      { of: "blest", to: "tcp", least: 0.98, most: 1.05 },
      { of: "min_rtt", to: "blest", least: 0.98, most: 1.02, state: `${LONG}&size=4000&schedulers=tcp,min_rtt,blest&buffer=5000` },
      { of: "min_rtt", to: "tcp", least: 0.98, most: 1.06, state: `${LONG}&size=4000&schedulers=tcp,min_rtt,blest&buffer=5000` },
    ],
  },
  {
    title: "The first path",
    text: "A connection begins on one path, and others join after its handshake. Here it begins on the slow one, and 100 KB take more than four times as long as " +
      "with plain TCP on the fast one. Set 'First path' to fast: the download takes the time of plain TCP. For short downloads this choice matters more than the " +
      "scheduler, and the verdict says so.",
    state: `${LONG}&size=100&schedulers=tcp,min_rtt,blest&initial=slow`,
    claims: [
      { of: "min_rtt", to: "tcp", least: 4, most: 6 },
      { of: "min_rtt", to: "tcp", least: 0.98, most: 1.02, state: `${LONG}&size=100&schedulers=tcp,min_rtt,blest` },
    ],
  },
  {
    title: "A path with loss",
    text: "The path with the higher rate loses 2 % of its packets, and each loss shrinks its window: by itself (tcp@lossy) it is slower than the clean path of 8 " +
      "Mbit/s. Together they are faster than either. Each path has its own congestion window, so the losses of one do not slow down the other.",
    state: "path=clean,rate=8,rtt=40,queue=100&path=lossy,rate=20,rtt=30,loss=2,queue=100&size=2000&schedulers=tcp@clean,tcp@lossy,min_rtt&runs=20",
    claims: [
      { of: "tcp@lossy", to: "tcp@clean", least: 1.5, most: 4 },
      { of: "min_rtt", to: "tcp@clean", least: 0.5, most: 0.75 },
    ],
  },
  {
    title: "Coupled congestion control",
    text: "If both paths lead through the same busy link, two windows take two shares of it, and other users get less. The congestion control lia couples the " +
      "windows, so that together they take one share. It cannot know that these two paths share nothing, and gains half as much as newreno, which does not " +
      "couple them: set 'Congestion' to newreno to see it.",
    state: `${LOSSY}&cc=lia`,
    claims: [
      { of: "min_rtt", to: "tcp", least: 0.6, most: 0.85 },
      { of: "min_rtt", to: "tcp", least: 0.4, most: 0.55, state: `${LOSSY}&cc=newreno` },
    ],
  },
  {
    title: "Your own paths",
    text: "Enter the rates, round-trip times, loss and queues of your own paths, or drop a recording of a link on one. The map below shows at which values a " +
      "scheduler pays. Take the experiment with you as a command, a file or Python: they give the same numbers, and support more kinds of networks and traffic " +
      "than this page.",
    state: "path=wifi,rate=40,rtt=20,queue=100,jitter=2&path=lte,rate=20,rtt=50,queue=200&size=1000&schedulers=tcp,min_rtt,blest&runs=10",
    claims: [],
    opens: "map",
  },
];

export class Tour {
  readonly element = el("section", { class: "tour", "aria-label": "Guided tour" });
  /** The number of the step, from 1; 0 without a tour. */
  step = 0;

  constructor(private readonly go: (step: Step | null) => void) {
    this.show(0);
  }

  /** Shows a step. `isNew` is false if its state was shown before, and may have been changed. */
  show(step: number, isNew = false): void {
    this.step = step;
    this.element.hidden = step === 0;
    const shown = STEPS[step - 1];
    if (!shown) return;
    const title = el("h3", { tabindex: "-1" }, `${step} of ${STEPS.length}: ${shown.title}`);
    const to = (other: number) => () => {
      this.show(other, true);
      this.go(STEPS[other - 1] ?? null);
    };
    const back = button("Back", "The step before", to(step - 1));
    back.disabled = step === 1;
    const next = button("Next", "The next step", to(step + 1));
    next.disabled = step === STEPS.length;
    this.element.replaceChildren(title, el("p", {}, shown.text), el("div", { class: "bar" }, back, next, button("End the tour", "Close the tour, and keep the state", to(0))));
    if (isNew) title.focus({ preventScroll: true });
  }

  start(): void {
    this.show(1, true);
    this.go(STEPS[0] ?? null);
  }
}
