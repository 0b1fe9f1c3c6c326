/**
 * The runs of one notebook: listens to its kernel, whichever it is, and keeps what is known of each run.
 *
 * One for each document, whatever the number of its views.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { JSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { Cells, runAt } from './cells';
import { Line, type LineState } from './line';
import { agentMarkOf } from './marks';
import { MIME, type RunInfo, type Told, VERSION } from './protocol';
import { Run } from './run';
import type { Settings } from './settings';

/** How often is said what has arrived, in milliseconds. */
const CONFIRM = 1000;
/** A page that is loaded again counts as another one for 3 s, and asks until it gets what it had, in milliseconds. */
const AGAIN = [1000, 2500, 4000];

/** What a tab remembers while it is loaded again, and no other knows. */
const SHOWN = 'codeact:shown:';

export class NotebookRuns implements IDisposable {
  constructor(
    private readonly context: DocumentRegistry.IContext<INotebookModel>,
    private readonly settings: Settings
  ) {
    context.sessionContext.kernelChanged.connect(this.onKernel, this);
    context.disposed.connect(this.dispose, this);
    settings.changed.connect(this.onSettings, this);
    this.connect(context.sessionContext);
    this.timer = setInterval(() => {
      for (const run of this.runs.values()) {
        run.acknowledge();
      }
    }, CONFIRM);
  }

  /** What is wrong with the kernel's side as a whole; empty if nothing is. */
  get problem(): string {
    if (this.line?.state !== 'other version') {
      return '';
    }
    const version = this.line.version;
    return `This page speaks version ${VERSION} with agents, and the kernel's codeact-kernel ${version} another one: update the older of both.`;
  }

  /** The run with this key, if the kernel knows it. */
  get(key: string | null): Run | null {
    return key === null ? null : (this.runs.get(key) ?? null);
  }

  /** Runs that go on, the newest last. */
  get live(): Run[] {
    return [...this.runs.values()].filter(run => run.isLive);
  }

  /** Emitted when a run has come, or the line to the kernel has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when something was put into the notebook. */
  get written(): ISignal<this, Run> {
    return this._written;
  }

  /** Cells of a run, also where the kernel does not know it any more. */
  cellsOf(key: string): Cells {
    return this.get(key)?.cells ?? this.makeCells(key, null);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearInterval(this.timer);
    this.line?.dispose();
    this.context.sessionContext.kernelChanged.disconnect(this.onKernel, this);
    this.settings.changed.disconnect(this.onSettings, this);
    Signal.clearData(this);
  }

  private onKernel(sender: ISessionContext): void {
    this.line?.dispose();
    this.line = null;
    for (const run of this.runs.values()) {
      run.lose('The notebook has another kernel now.');
    }
    this.runs.clear();
    this.connect(sender);
    this._changed.emit();
  }

  private connect(session: ISessionContext): void {
    const kernel = session.session?.kernel;
    if (kernel != null) {
      this.line = new Line(kernel, () => this.settings.all);
      this.line.told.connect(this.onTold, this);
      this.line.stateChanged.connect(this.onLine, this);
    }
  }

  private onLine(_: Line, state: LineState): void {
    if (state === 'lost') {
      for (const run of this.runs.values()) {
        run.lose('The kernel has gone away, or was restarted.');
      }
    } else if (state === 'open') {
      for (const run of this.live) {
        void run.show();
      }
    }
    this._changed.emit();
  }

  private onTold(_: Line, told: Told): void {
    if (told.hello !== undefined && told.hello.v === VERSION) {
      void this.context.ready.then(() => {
        for (const info of told.hello?.runs ?? []) {
          this.meet(info);
        }
      });
    } else if (told.begun !== undefined) {
      this.add(told.begun);
    } else if (told.run !== undefined && told.ops !== undefined) {
      const run = this.runs.get(told.run) ?? this.add({ run: told.run, cell: null, task: '', live: true });
      run.receive(told.n ?? 0, told.ops);
    }
  }

  /** A run that began before this page was here: it is caught up with where something of it may be missing. */
  private meet(info: RunInfo): void {
    if (this.runs.get(info.run)?.reachable === true) {
      return;
    }
    const run = this.add(info);
    const agent = run.cells.agentCell;
    const mark = agentMarkOf(agent);
    if (agent !== null && !(mark?.agent === info.run && mark.complete && !info.live)) {
      void this.showAgain(run, wasShownHere(run) ? [...AGAIN] : []);
    }
  }

  private async showAgain(run: Run, waits: number[]): Promise<void> {
    await run.show();
    const wait = waits.shift();
    if (run.problem !== '' && wait !== undefined && !this._isDisposed) {
      setTimeout(() => void this.showAgain(run, waits), wait);
    }
  }

  private add(info: RunInfo): Run {
    const home = info.cell ?? this.homeOf(info.run);
    const run = new Run(info, this.makeCells(info.run, home), {
      ask: (what: string, fields: JSONObject) =>
        this.line?.ask(what, fields) ?? Promise.reject(new Error('There is no kernel.'))
    });
    run.written.connect(() => {
      sessionStorage.setItem(SHOWN + run.key, '1');
      this._written.emit(run);
    });
    this.runs.set(info.run, run);
    this._changed.emit();
    return run;
  }

  /** The cell in whose output the run's bar is. */
  private homeOf(key: string): string | null {
    for (const cell of this.context.model.cells) {
      if (runAt(cell, MIME) === key && cell.type === 'code') {
        return cell.id;
      }
    }
    return null;
  }

  private makeCells(key: string, home: string | null): Cells {
    return new Cells(this.context.model, key, home, () => this.settings.folding);
  }

  private onSettings(): void {
    if (this.line?.state === 'open') {
      this.line.ask('settings', { settings: this.settings.all }).catch(() => undefined);
    }
  }

  private line: Line | null = null;
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly runs = new Map<string, Run>();
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _written = new Signal<this, Run>(this);
}

function wasShownHere(run: Run): boolean {
  return sessionStorage.getItem(SHOWN + run.key) !== null;
}
