/**
 * Figures and states, as people read them.
 */
import type { Bar, CellState, RunState } from './protocol';

const CELL_STATES: Record<CellState, string> = {
  writing: 'being written',
  queued: 'waiting',
  asking: 'asks you',
  running: 'running',
  ok: '',
  error: 'error',
  timeout: 'timed out',
  cancelled: 'stopped',
  rejected: 'not allowed',
  skipped: 'not run',
  died: 'kernel died'
};

const RUN_STATES: Record<RunState, string> = {
  working: 'Working',
  asking: 'Asks you',
  answered: 'Answered',
  stopped: 'Stopped',
  limit: 'Limit reached',
  failed: 'Failed'
};

export function cellState(state: CellState): string {
  return CELL_STATES[state];
}

export function runState(state: RunState): string {
  return RUN_STATES[state];
}

/** 0.4 s, 41 s, 3:07, 1:02:09. */
export function duration(seconds: number): string {
  const whole = Math.floor(Math.max(0, seconds));
  if (whole < 60) {
    return seconds < 9.95 ? `${Math.max(0, seconds).toFixed(1)} s` : `${whole} s`;
  }
  const parts = [Math.floor(whole / 60) % 60, whole % 60];
  if (whole >= 3600) {
    parts.unshift(Math.floor(whole / 3600));
  }
  return parts.map((part, place) => (place === 0 ? String(part) : String(part).padStart(2, '0'))).join(':');
}

/** 950, 1.2k, 34k, 1.2M. */
export function count(number: number): string {
  if (number < 1000) {
    return String(number);
  }
  const [value, unit] = number < 999_500 ? [number / 1000, 'k'] : [number / 1e6, 'M'];
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)}${unit}`;
}

/** $0.004, $1.20. */
export function money(dollars: number): string {
  return `$${dollars.toFixed(dollars > 0 && dollars < 0.1 ? 3 : 2)}`;
}

/** How far a run is, in one line. */
export function figures(bar: Bar): string[] {
  const told = [`${bar.turns} turn${bar.turns === 1 ? '' : 's'}`, `${count(bar.tokens)} tokens`];
  if (bar.cost !== null) {
    told.push(bar.cost === 0 ? 'free' : money(bar.cost));
  }
  return told;
}

/** Seconds that a run has taken, at this moment. */
export function elapsed(bar: Bar, live: boolean): number | null {
  if (bar.started === null) {
    return null;
  }
  const end = bar.ended ?? (live ? Date.now() / 1000 : null);
  return end === null ? null : end - bar.started;
}
