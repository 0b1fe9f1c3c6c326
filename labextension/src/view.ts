/**
 * A view of a notebook in which an agent works: how its cells look, and which of them is kept in sight.
 *
 * All that is shown is read from the cells' metadata, so it is the same after a reload, and in a second browser.
 */
import type { Cell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import { button } from './elements';
import { type Mark, markOf, setMark } from './marks';
import type { NotebookRuns } from './notebook';
import type { CellState } from './protocol';
import type { Run } from './run';
import { cellState, duration } from './words';

/** Cells are drawn anew this often at most, in milliseconds; durations count on each second. */
const DRAWN = 150;
/** What is left below the newest cell, in pixels. */
const MARGIN = 24;
/** Who looks up stops following. */
const UPWARDS = ['ArrowUp', 'PageUp', 'Home'];

export class NotebookView implements IDisposable {
  constructor(
    private readonly panel: NotebookPanel,
    private readonly runs: NotebookRuns
  ) {
    const { notebook } = this;
    notebook.modelContentChanged.connect(this.later, this);
    runs.changed.connect(this.later, this);
    runs.written.connect(this.onWritten, this);
    notebook.node.addEventListener('wheel', this.onWheel, { passive: true });
    notebook.node.addEventListener('keydown', this.onKey);
    notebook.node.addEventListener('pointerdown', this.onPointer);
    panel.disposed.connect(this.dispose, this);
    this.clock = setInterval(() => {
      if (runs.live.length > 0) {
        this.draw();
      }
    }, 1000);
    this.later();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearInterval(this.clock);
    clearTimeout(this.drawing);
    this.runs.changed.disconnect(this.later, this);
    this.runs.written.disconnect(this.onWritten, this);
    this.panel.disposed.disconnect(this.dispose, this);
  }

  private get notebook(): Notebook {
    return this.panel.content;
  }

  // How cells look.

  private later(): void {
    this.drawing ??= setTimeout(() => {
      this.draw();
    }, DRAWN);
  }

  private draw(): void {
    this.drawing = undefined;
    if (this._isDisposed || this.notebook.model === null) {
      return;
    }
    this.notebook.node.classList.toggle('codeact-mod-live', this.runs.live.length > 0);
    const folded = new Set<string>();
    const inside = new Map<string, number>();
    const marked: [Cell, Mark][] = [];
    for (const cell of this.notebook.widgets) {
      const mark = markOf(cell.model);
      if (mark === null) {
        continue;
      }
      marked.push([cell, mark]);
      const hidden = mark.under !== undefined && folded.has(mark.under);
      if (hidden || mark.folded === true) {
        folded.add(cell.model.id);
      }
      if (mark.under !== undefined) {
        inside.set(mark.under, (inside.get(mark.under) ?? 0) + 1);
        if (cell.isHidden !== hidden) {
          cell.setHidden(hidden);
        }
      }
    }
    for (const [cell, mark] of marked) {
      this.drawCell(cell, mark, inside.get(cell.model.id) ?? 0);
    }
  }

  private drawCell(cell: Cell, mark: Mark, inside: number): void {
    cell.addClass('codeact-Cell');
    const live = this.runs.get(mark.run)?.isLive === true;
    setData(cell.node, 'codeactKind', mark.kind);
    setData(cell.node, 'codeactState', mark.state ?? '');
    setData(cell.node, 'codeactNote', noteOf(cell, mark, live, inside));
    if (mark.kind === 'agent') {
      this.drawToggle(cell, mark);
    }
  }

  private drawToggle(cell: Cell, mark: Mark): void {
    let toggle = cell.node.querySelector<HTMLButtonElement>('.codeact-Toggle');
    if (toggle === null) {
      const prompt = cell.node.querySelector('.jp-InputPrompt');
      if (prompt === null) {
        return;
      }
      toggle = button('', () => {
        setMark(cell.model, { folded: markOf(cell.model)?.folded !== true });
        this.draw();
      });
      toggle.classList.add('codeact-Toggle');
      prompt.append(toggle);
    }
    const folded = mark.folded === true;
    toggle.setAttribute('aria-expanded', String(!folded));
    toggle.title = folded ? "Show the sub-agent's cells" : "Hide the sub-agent's cells";
    toggle.setAttribute('aria-label', toggle.title);
  }

  // The newest cell in sight.

  private onWritten(_: NotebookRuns, run: Run): void {
    if (run.follow && run.isLive && this.panel.isVisible) {
      requestAnimationFrame(() => {
        this.keepInSight(run);
      });
    }
  }

  private keepInSight(run: Run): void {
    const cells = this.notebook.widgets.filter(cell => markOf(cell.model)?.run === run.key && !cell.isHidden);
    const last = cells.at(-1);
    if (last === undefined || this._isDisposed) {
      return;
    }
    const scroller = this.notebook.outerNode;
    const sight = scroller.getBoundingClientRect();
    const below = last.node.getBoundingClientRect().bottom + MARGIN - sight.bottom;
    if (below > 0) {
      scroller.scrollTop += below;
    }
  }

  private readonly onWheel = (event: WheelEvent): void => {
    if (event.deltaY < 0) {
      this.letGo();
    }
  };

  private readonly onKey = (event: KeyboardEvent): void => {
    if (UPWARDS.includes(event.key)) {
      this.letGo();
    }
  };

  /** Who works in a cell, or moves the scroll bar, wants to stay there. */
  private readonly onPointer = (event: PointerEvent): void => {
    const target = event.target as HTMLElement;
    if (target.closest('.codeact-Bar') === null) {
      this.letGo();
    }
  };

  private letGo(): void {
    for (const run of this.runs.live) {
      run.setFollow(false);
    }
  }

  private readonly clock: ReturnType<typeof setInterval>;
  private drawing: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

/** What stands at the edge of a cell: how it ended and how long it took, and that a person has run it again. */
function noteOf(cell: Cell, mark: Mark, live: boolean, inside: number): string {
  const parts: string[] = [];
  if (mark.ran_in !== undefined) {
    parts.push(`run in your kernel (${mark.ran_in}); it was written and run in the agent's`);
  } else if (mark.state !== undefined && (live || isEnded(mark.state))) {
    parts.push(cellState(mark.state));
    parts.push(timeOf(cell, mark.state));
  }
  if (mark.note !== undefined && mark.ran_in === undefined) {
    parts.push(mark.note.split('\n', 1)[0] ?? '');
  }
  if (mark.kind === 'agent') {
    parts.push(`${inside} cell${inside === 1 ? '' : 's'}`);
  }
  return parts.filter(part => part !== '').join(' · ');
}

function isEnded(state: CellState): boolean {
  return state !== 'writing' && state !== 'queued' && state !== 'asking' && state !== 'running';
}

function timeOf(cell: Cell, state: CellState): string {
  const times = cell.model.getMetadata('execution') as Record<string, string> | undefined;
  const started = times?.['iopub.execute_input'];
  const ended = times?.['shell.execute_reply'];
  if (started === undefined || (ended === undefined && state !== 'running')) {
    return '';
  }
  const end = ended === undefined ? Date.now() : Date.parse(ended);
  return duration((end - Date.parse(started)) / 1000);
}

function setData(node: HTMLElement, name: string, value: string): void {
  if (node.dataset[name] !== value) {
    node.dataset[name] = value;
  }
}
