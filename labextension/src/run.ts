/**
 * One run, as this page knows it: how far it is, what it asks, and what of it is in the notebook.
 */
import type { JSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { type Cells, DoesNotFit } from './cells';
import { type Bar, type Decision, goesOn, type Op, type Question, type RunInfo, type Snapshot } from './protocol';

/** Milliseconds that putting things into the notebook may take of each frame. */
const FRAME = 10;
/** How long a hidden page, which draws no frames, waits instead. */
const HIDDEN = 200;
/** What has arrived is confirmed this often at most, in milliseconds. */
const CONFIRMED = 200;
/** All is asked for again at most this often by itself, in milliseconds. */
const MENDING = 5000;

interface Waiting {
  n: number;
  ops: Op[];
  whole: boolean;
}

/** What a run needs of its notebook. */
export interface Host {
  /** Say something to the kernel. */
  ask(what: string, fields: JSONObject): Promise<{ snapshot?: Snapshot }>;
}

export class Run {
  constructor(
    readonly info: RunInfo,
    readonly cells: Cells,
    private readonly host: Host
  ) {}

  /** How far it is, as told last; null where the page knows nothing newer than the display. */
  bar: Bar | null = null;

  /** What is asked, in the order in which it was. */
  readonly questions = new Map<string, Question>();

  /** What is wrong between page and kernel, for people; empty if nothing is. */
  problem = '';

  /** Whether the page can reach the run. */
  reachable = true;

  /** Whether the newest cell is kept in sight. */
  follow = true;

  get key(): string {
    return this.info.run;
  }

  get isLive(): boolean {
    return this.reachable && (this.bar === null ? this.info.live : goesOn(this.bar.state));
  }

  /** Emitted when bar, questions, problem or follow have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when something was put into the notebook. */
  get written(): ISignal<this, void> {
    return this._written;
  }

  /** Take what the kernel tells; what was told before is passed over, and after a gap all of it is asked for. */
  receive(n: number, ops: Op[]): void {
    if (this.asking) {
      this.meanwhile.push([n, ops]);
      return;
    }
    if (n < this.next) {
      return;
    }
    if (n > this.next) {
      void this.show();
      return;
    }
    this.next = n + 1;
    this.push({ n, ops, whole: false });
  }

  /** Ask to be the page that shows this run, and for all of it. */
  async show(): Promise<void> {
    if (this.asking) {
      return;
    }
    this.asking = true;
    try {
      const { snapshot } = await this.host.ask('show', { run: this.key });
      if (snapshot !== undefined) {
        this.reachable = true;
        this.queue.length = 0;
        this.next = snapshot.n + 1;
        this.push({ ...snapshot, whole: true });
        this.set('');
      }
    } catch (error) {
      this.set(sentence(error));
    }
    this.asking = false;
    for (const [n, ops] of this.meanwhile.splice(0)) {
      this.receive(n, ops);
    }
  }

  async stop(): Promise<void> {
    await this.say('stop', {});
  }

  async stopBlock(block: string): Promise<void> {
    await this.say('stop_block', { block });
  }

  async steer(text: string): Promise<void> {
    await this.say('steer', { text });
  }

  /** Decide what is asked; `text` where it was edited. Throws if the kernel does not take it. */
  async answer(question: string, answer: Decision, reason: string, text: string | null): Promise<void> {
    const fields: JSONObject = { run: this.key, question, answer };
    if (reason !== '') {
      fields['reason'] = reason;
    }
    if (text !== null) {
      fields['text'] = text;
    }
    await this.host.ask('answer', fields);
  }

  /** Say what has been put into the notebook: again and again while it goes on, so that the page counts as there. */
  acknowledge(): void {
    const news = this.done > this.had || this.isLive;
    if (news && this.done >= 0 && this.reachable && !this.failed) {
      this.confirmed = performance.now();
      this.had = this.done;
      this.host.ask('have', { run: this.key, n: this.done }).catch(() => undefined);
    }
  }

  /** The kernel cannot be reached: nothing more will come. */
  lose(why: string): void {
    this.reachable = false;
    this.queue.length = 0;
    this.questions.clear();
    this.cells.calm();
    this.set(goesOn(this.bar?.state ?? 'working') && this.info.live ? why : '');
  }

  setFollow(follow: boolean): void {
    if (follow !== this.follow) {
      this.follow = follow;
      this._changed.emit();
    }
  }

  private async say(what: string, fields: JSONObject): Promise<void> {
    try {
      await this.host.ask(what, { run: this.key, ...fields });
      this.set('');
    } catch (error) {
      this.set(sentence(error));
    }
  }

  private set(problem: string): void {
    this.problem = problem;
    this._changed.emit();
  }

  // Into the notebook, a bit in each frame.

  private push(waiting: Waiting): void {
    this.queue.push(waiting);
    this.schedule();
  }

  private schedule(): void {
    if (this.scheduled) {
      return;
    }
    this.scheduled = true;
    if (document.hidden) {
      setTimeout(this.work, HIDDEN);
    } else {
      requestAnimationFrame(this.work);
    }
  }

  private readonly work = (): void => {
    this.scheduled = false;
    const end = performance.now() + FRAME;
    this.cells.begin(false);
    let changed = false;
    while (this.queue.length > 0 && performance.now() < end) {
      const waiting = this.queue[0] as Waiting;
      if (waiting.whole) {
        waiting.whole = false;
        this.cells.begin(true);
        this.questions.clear();
        this.failed = false;
        changed = true;
      }
      const op = waiting.ops.shift();
      if (op === undefined) {
        this.done = waiting.n;
        this.queue.shift();
      } else {
        changed = this.apply(op) || changed;
      }
    }
    if (this.queue.length > 0) {
      this.schedule();
    } else {
      if (performance.now() - this.confirmed > CONFIRMED) {
        this.acknowledge();
      }
      this.cells.note(this.bar !== null && !goesOn(this.bar.state));
    }
    if (changed) {
      this._changed.emit();
    }
    this._written.emit();
  };

  /** Returns whether the bar has to be drawn anew. */
  private apply(op: Op): boolean {
    switch (op.op) {
      case 'bar':
        this.bar = op;
        if (!goesOn(op.state)) {
          this.questions.clear();
          this.cells.calm();
        }
        return true;
      case 'ask':
        this.questions.set(op.question, op);
        return true;
      case 'asked':
        this.questions.delete(op.question);
        return true;
      default:
        try {
          this.cells.apply(op);
        } catch (error) {
          this.mend(error);
        }
        return false;
    }
  }

  /** Something did not go into the notebook. It is not confirmed, and what is missing is asked for, once. */
  private mend(error: unknown): void {
    this.failed = true;
    const now = performance.now();
    if (error instanceof DoesNotFit && now - this.mended > MENDING) {
      this.mended = now;
      void this.show();
    } else {
      console.error(error);
      this.set('A cell could not be put into the notebook.');
    }
  }

  private next = 0;
  private done = -1;
  private had = -1;
  private asking = false;
  private readonly meanwhile: [number, Op[]][] = [];
  private failed = false;
  private mended = -MENDING;
  private confirmed = 0;
  private scheduled = false;
  private readonly queue: Waiting[] = [];
  private readonly _changed = new Signal<this, void>(this);
  private readonly _written = new Signal<this, void>(this);
}

function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
