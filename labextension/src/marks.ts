/**
 * What cells carry about the run that made them: one key in their metadata, and two tags.
 */
import type { ICellModel } from '@jupyterlab/cells';
import type { JSONObject } from '@lumino/coreutils';

import type { CellKind, CellOp, CellState } from './protocol';

export const KEY = 'codeact';

/** Programs that run notebooks (nbclient, papermill) pass over cells with the second. */
export const TAGS: readonly string[] = ['codeact', 'skip-execution'];

/** On a cell that an agent made. */
export interface Mark {
  run: string;
  kind: CellKind;
  block: string | null;
  /** The id of the heading that it stands under. */
  under?: string;
  state?: CellState;
  note?: string;
  model?: string;
  turn?: number;
  /** Of a heading: whether the cells under it are hidden. */
  folded?: boolean;
  /** The name of the person's kernel in which it was run again. */
  ran_in?: string;
}

/** On the cell that holds `%agent`. */
export interface AgentMark {
  agent: string;
  /** Cells of the run with lower numbers were put into this notebook: those that are not there were deleted. */
  cells: number;
  /** Whether the notebook has all of the run. */
  complete: boolean;
}

/** The mark of a cell that an agent made, if it is one. */
export function markOf(cell: ICellModel | null | undefined): Mark | null {
  const mark = cell?.getMetadata(KEY) as Mark | undefined;
  return mark?.run === undefined ? null : mark;
}

/** The mark of a cell that holds `%agent`, if it is one. */
export function agentMarkOf(cell: ICellModel | null | undefined): AgentMark | null {
  const mark = cell?.getMetadata(KEY) as AgentMark | undefined;
  return mark?.agent === undefined ? null : mark;
}

/** The run that a cell belongs to, as one of its cells or as the one that began it. */
export function runOf(cell: ICellModel | null | undefined): string | null {
  return markOf(cell)?.run ?? agentMarkOf(cell)?.agent ?? null;
}

/** The number of a cell in its run: ids are made of the run and a number. */
export function numberOf(id: string): number {
  const number = Number(/-(\d+)$/.exec(id)?.[1]);
  return Number.isNaN(number) ? Infinity : number;
}

/** Change a cell's metadata so that an undo of the person's does not change it back. */
export function setMetadata(cell: ICellModel, values: Record<string, unknown>): void {
  cell.sharedModel.transact(() => {
    for (const [key, value] of Object.entries(values)) {
      cell.setMetadata(key, value);
    }
  }, false);
}

/** Change a cell's mark, where that is a change. */
export function setMark(cell: ICellModel, changes: Partial<Mark> | Partial<AgentMark>): void {
  const before = (cell.getMetadata(KEY) ?? {}) as JSONObject;
  const changed = Object.entries(changes).some(([key, value]) => before[key] !== value);
  if (changed) {
    setMetadata(cell, { [KEY]: { ...before, ...changes } });
  }
}

/** The metadata of a new cell. */
export function metadataOf(run: string, op: CellOp): JSONObject {
  const mark: Mark = { run, kind: op.kind, block: op.block };
  if (op.under != null) {
    mark.under = op.under;
  }
  if (op.model != null) {
    mark.model = op.model;
  }
  if (op.turn != null) {
    mark.turn = op.turn;
  }
  return { [KEY]: mark as unknown as JSONObject, tags: [...TAGS] };
}
