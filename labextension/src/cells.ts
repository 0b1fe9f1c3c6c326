/**
 * Writes a run into a notebook: operations of the kernel become cells, their code, outputs and states.
 *
 * All of it goes through the shared model, in transactions that an undo of the person's passes over. An operation that
 * comes twice changes nothing the second time.
 */
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { PartialJSONObject } from '@lumino/coreutils';

import {
  type AgentMark,
  agentMarkOf,
  KEY,
  type Mark,
  markOf,
  metadataOf,
  numberOf,
  runOf,
  setMark,
  setMetadata
} from './marks';
import { type CellOp, isOver, type OutputsOp, type SourceOp, type StateOp } from './protocol';

/** What folds when a block has ended and the next begins. */
export type Folding = 'all' | 'code' | 'nothing';

/** Output that is kept in sight when a cell folds: somebody made it to be looked at. */
const TO_LOOK_AT = /^(image\/|text\/html|text\/latex|text\/markdown|application\/vnd\.)/;

/** The operations that are put into cells. */
export type Written = CellOp | SourceOp | StateOp | OutputsOp;

/** Where something does not fit onto what is there: a snapshot mends it. */
export class DoesNotFit extends Error {}

export class Cells {
  /**
   * @param model - The notebook.
   * @param run - The run's key.
   * @param home - The id of the cell that holds `%agent`, where it is known.
   * @param folding - Says what folds; asked each time.
   */
  constructor(
    private readonly model: INotebookModel,
    readonly run: string,
    private readonly home: string | null,
    private readonly folding: () => Folding
  ) {}

  /** The cell that holds `%agent`. */
  get agentCell(): ICellModel | null {
    const found = this.home === null ? null : this.find(this.home);
    return found ?? this.search(cell => agentMarkOf(cell)?.agent === this.run);
  }

  /** The cells of the run that are in the notebook, in its order. */
  get all(): ICellModel[] {
    return [...this.model.cells].filter(cell => markOf(cell)?.run === this.run);
  }

  /** Begin to apply operations: what was found before may have moved. `whole` if all of the run follows. */
  begin(whole: boolean): void {
    this.found.clear();
    if (whole) {
      this.told.clear();
    }
  }

  /**
   * Apply an operation.
   *
   * @throws DoesNotFit, where something before it is missing.
   */
  apply(op: Written): void {
    switch (op.op) {
      case 'cell':
        this.insert(op);
        break;
      case 'source':
        this.write(op);
        break;
      case 'outputs':
        this.put(op);
        break;
      case 'state':
        this.settle(op);
        break;
    }
  }

  /** Note in the notebook what of the run it holds. */
  note(complete: boolean): void {
    const cell = this.agentCell;
    if (cell !== null) {
      const before = agentMarkOf(cell);
      if (before !== null && before.agent !== this.run) {
        // The cell was run again: what came of it before stays, below what comes now, and folded.
        new Cells(this.model, before.agent, null, this.folding).fold(true);
      }
      const known = before?.agent === this.run ? before.cells : 0;
      const told = [...this.told].map(numberOf).filter(Number.isFinite);
      const mark: AgentMark = { agent: this.run, cells: Math.max(known, ...told.map(number => number + 1)), complete };
      setMark(cell, mark);
    }
  }

  /** No cell runs any more, as far as can be known. */
  calm(): void {
    for (const cell of this.all) {
      if (cell.type === 'code' && (cell as ICodeCellModel).executionState === 'running') {
        (cell as ICodeCellModel).executionState = 'idle';
      }
    }
  }

  /** Fold or unfold all that has ended. */
  fold(folded: boolean): void {
    for (const cell of this.all) {
      const state = markOf(cell)?.state;
      if (!folded || (state !== undefined && isOver(state))) {
        foldCell(cell, folded ? 'all' : 'nothing');
      }
    }
  }

  private insert(op: CellOp): void {
    if (this.told.has(op.id)) {
      return;
    }
    this.told.add(op.id);
    if (this.find(op.id) !== null) {
      return;
    }
    const agent = this.agentCell;
    const mark = agentMarkOf(agent);
    if (agent === null || (mark?.agent === this.run && numberOf(op.id) < mark.cells)) {
      // The person has deleted it, or all of it.
      return;
    }
    const shared = this.model.sharedModel;
    const cell = {
      id: op.id,
      cell_type: op.kind === 'code' ? 'code' : 'markdown',
      source: op.source,
      metadata: metadataOf(this.run, op),
      ...(op.kind === 'code' ? { outputs: [], execution_count: null } : {})
    };
    const index = this.placeOf(op, agent);
    shared.transact(() => {
      shared.insertCell(index, cell);
    }, false);
    const made = this.model.cells.get(index);
    this.found.set(op.id, made);
    if (op.kind === 'agent' && this.folding() !== 'nothing') {
      setMark(made, { folded: true });
    }
    if (op.kind === 'code') {
      this.foldBefore(op);
    }
  }

  /** Below all that stands under the same heading, the heading itself at least. */
  private placeOf(op: CellOp, agent: ICellModel): number {
    const family = new Set<string | undefined>([op.under ?? undefined]);
    let last = -1;
    let index = 0;
    for (const cell of this.model.cells) {
      const mark = markOf(cell);
      if (mark?.run === this.run && (family.has(mark.under) || cell.id === op.under)) {
        family.add(cell.id);
        last = index;
      } else if (cell === agent && last < 0) {
        last = index;
      }
      index++;
    }
    return last + 1;
  }

  /** What has ended before this one folds now, and not when it ended: so its result can be seen for a while. */
  private foldBefore(op: CellOp): void {
    for (const id of this.ended) {
      const cell = this.find(id);
      if (cell !== null && markOf(cell)?.under === (op.under ?? undefined)) {
        foldCell(cell, this.folding());
        this.ended.delete(id);
      }
    }
  }

  private write(op: SourceOp): void {
    const cell = this.find(op.id);
    if (cell === null) {
      this.miss(op.id);
      return;
    }
    const source = cell.sharedModel.getSource();
    if (op.at > source.length) {
      throw new DoesNotFit(op.id);
    }
    if (source.slice(op.at) !== op.text) {
      cell.sharedModel.transact(() => {
        cell.sharedModel.updateSource(op.at, source.length, op.text);
      }, false);
    }
  }

  private put(op: OutputsOp): void {
    const cell = this.find(op.id);
    if (cell?.type !== 'code') {
      this.miss(op.id);
      return;
    }
    const outputs = (cell as ICodeCellModel).outputs;
    if (op.at > outputs.length) {
      throw new DoesNotFit(op.id);
    }
    if (op.at < outputs.length) {
      const wanted = [...outputs.toJSON().slice(0, op.at), ...op.outputs];
      if (JSON.stringify(wanted) !== JSON.stringify(outputs.toJSON())) {
        outputs.fromJSON(wanted);
      }
      return;
    }
    for (const output of op.outputs) {
      outputs.add(output);
    }
  }

  private settle(op: StateOp): void {
    const cell = this.find(op.id);
    if (cell === null) {
      this.miss(op.id);
      return;
    }
    const execution: PartialJSONObject = {};
    if (op.started !== null) {
      execution['iopub.execute_input'] = execution['iopub.status.busy'] = time(op.started);
    }
    if (op.ended !== null) {
      execution['shell.execute_reply'] = execution['iopub.status.idle'] = time(op.ended);
    }
    const before = markOf(cell);
    const mark = { ...before, state: op.state } as Mark;
    if (op.note) {
      mark.note = op.note;
    }
    if (op.block) {
      mark.block = op.block;
    }
    setMetadata(cell, op.started === null ? { [KEY]: mark } : { [KEY]: mark, execution });
    if (cell.type === 'code') {
      const code = cell as ICodeCellModel;
      const state = op.state === 'running' ? 'running' : 'idle';
      if (code.executionState !== state) {
        code.executionState = state;
      }
      if (op.state === 'ok' && before?.state !== 'ok') {
        this.ended.add(op.id);
      }
    }
  }

  private find(id: string): ICellModel | null {
    const known = this.found.get(id);
    if (known !== undefined) {
      return known;
    }
    if (this.found.size === 0) {
      for (const cell of this.model.cells) {
        this.found.set(cell.id, cell);
      }
      return this.found.get(id) ?? null;
    }
    return null;
  }

  private search(is: (cell: ICellModel) => boolean): ICellModel | null {
    for (const cell of this.model.cells) {
      if (is(cell)) {
        return cell;
      }
    }
    return null;
  }

  /** A cell that was told of and is not there was deleted by the person; of others nothing was told. */
  private miss(id: string): void {
    if (!this.told.has(id)) {
      throw new DoesNotFit(id);
    }
  }

  /** The ids of all cells that the kernel has told of, there or deleted. */
  private readonly told = new Set<string>();
  private readonly found = new Map<string, ICellModel>();
  /** Those that have ended and not folded yet. */
  private readonly ended = new Set<string>();
}

/** The run of a cell, or of the run whose bar is in its outputs. */
export function runAt(cell: ICellModel | null | undefined, mime: string): string | null {
  const run = runOf(cell);
  if (run !== null || cell?.type !== 'code') {
    return run;
  }
  for (const output of (cell as ICodeCellModel).outputs.toJSON()) {
    const shown = (output['data'] as Record<string, { run?: string }> | undefined)?.[mime];
    if (shown?.run !== undefined) {
      return shown.run;
    }
  }
  return null;
}

/** Fold a cell: its code, and of its output what is mere text. */
export function foldCell(cell: ICellModel, folding: Folding): void {
  if (cell.type !== 'code') {
    if (markOf(cell)?.kind === 'agent') {
      setMark(cell, { folded: folding !== 'nothing' });
    }
    return;
  }
  const output = folding === 'all' && !(cell as ICodeCellModel).outputs.toJSON().some(isToLookAt);
  // One after the other: a cell that is told of both at once writes back what it has seen of neither.
  setMetadata(cell, { collapsed: output });
  const before = (cell.getMetadata('jupyter') ?? {}) as object;
  setMetadata(cell, { jupyter: { ...before, source_hidden: folding !== 'nothing', outputs_hidden: output } });
}

function isToLookAt(output: IOutput): boolean {
  const data = output['data'] as object | undefined;
  return data !== undefined && Object.keys(data).some(type => TO_LOOK_AT.test(type));
}

function time(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
