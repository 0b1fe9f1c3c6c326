/**
 * What page and kernel tell each other: docs/design/lab.md says what each of these means.
 */
import type { IExecuteResult, IOutput } from '@jupyterlab/nbformat';

export const VERSION = 1;
export const TARGET = 'codeact';
export const HELLO = 'codeact.hello';
export const MIME = 'application/vnd.codeact.run+json';

export type CellKind = 'code' | 'prose' | 'agent';

export type CellState =
  | 'writing'
  | 'queued'
  | 'asking'
  | 'running'
  | 'ok'
  | 'error'
  | 'timeout'
  | 'cancelled'
  | 'rejected'
  | 'skipped'
  | 'died';

export interface CellOp {
  op: 'cell';
  id: string;
  kind: CellKind;
  depth: number;
  source: string;
  block: string | null;
  /** The id of the heading that it stands under. */
  under?: string | null;
  model?: string;
  turn?: number;
}

export interface SourceOp {
  op: 'source';
  id: string;
  at: number;
  text: string;
}

export interface StateOp {
  op: 'state';
  id: string;
  state: CellState;
  started: number | null;
  ended: number | null;
  note?: string | null;
  block?: string | null;
}

export interface OutputsOp {
  op: 'outputs';
  id: string;
  at: number;
  outputs: (IOutput | IExecuteResult)[];
}

export interface Question {
  question: string;
  id: string | null;
  title: string;
  why: string;
  text: string | null;
  ending: string | null;
  diff: string | null;
  /** What "always" would mean; none where it cannot be chosen. */
  always: string | boolean | null;
}

export interface AskOp extends Question {
  op: 'ask';
}

export interface AskedOp {
  op: 'asked';
  question: string;
  answer: string;
}

export type RunState = 'working' | 'asking' | 'answered' | 'stopped' | 'limit' | 'failed';

export interface Bar {
  state: RunState;
  text: string;
  model: string | null;
  started: number | null;
  ended: number | null;
  turns: number;
  tokens: number;
  cost: number | null;
  context: number | null;
  blocks: string[];
}

export interface BarOp extends Bar {
  op: 'bar';
}

export type Op = CellOp | SourceOp | StateOp | OutputsOp | AskOp | AskedOp | BarOp;

export interface RunInfo {
  run: string;
  cell: string | null;
  task: string;
  live: boolean;
}

export interface Snapshot {
  n: number;
  ops: Op[];
}

/** What the kernel says without being asked. */
export interface Told {
  hello?: { v: number; version: string; runs: RunInfo[] };
  begun?: RunInfo;
  run?: string;
  n?: number;
  ops?: Op[];
}

/** What it answers. */
export interface Answer {
  re: number;
  ok?: boolean;
  error?: string;
  snapshot?: Snapshot;
}

export type Decision = 'yes' | 'no' | 'always';

/** What the display of a run holds. */
export interface RunDisplay {
  v: number;
  run: string;
  bar: Bar | null;
}

const LIVE: readonly string[] = ['working', 'asking'];

/** Whether a run in this state goes on. */
export function goesOn(state: RunState): boolean {
  return LIVE.includes(state);
}

const OVER: readonly CellState[] = ['ok', 'error', 'timeout', 'cancelled', 'rejected', 'skipped', 'died'];

/** Whether a block in this state has ended. */
export function isOver(state: CellState): boolean {
  return OVER.includes(state);
}
