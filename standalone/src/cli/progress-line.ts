import type { Terminal } from './terminal.ts';

export interface Progress {
  readonly done: number;
  readonly total: number;
  /** The amount done by this run, which may continue the work of another run. */
  readonly doneHere: number;
  readonly elapsedMs: number;
  /** The unit of the counts. Events if absent. */
  readonly unit?: string;
  /** The number of items done by this run, when `done` and `total` are shares and not counts. */
  readonly counted?: number | undefined;
}

const barWidth = 24;
const thousands = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** `[######------]  50 %  5,000 of 10,000 events  2,500/s  2 s left` */
export function progressLine({
  done: reached,
  total,
  doneHere,
  elapsedMs,
  unit = 'events',
  counted,
}: Progress): string {
  // Events appended after the total was read are done too.
  const done = Math.min(reached, total);
  const share = total === 0 ? 1 : done / total;
  const filled = Math.floor(share * barWidth);
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}]`;
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const amount =
    counted === undefined
      ? `${thousands.format(done)} of ${thousands.format(total)}`
      : thousands.format(counted);
  const parts = [bar, percent, `${amount} ${unit}`];
  if (doneHere > 0 && elapsedMs > 0) {
    parts.push(`${thousands.format(((counted ?? doneHere) * 1000) / elapsedMs)}/s`);
    if (done < total) parts.push(`${duration(((total - done) * elapsedMs) / doneHere / 1000)} left`);
  }
  return parts.join('  ');
}

/** `3 s`, `2 min 5 s`, `1 h 2 min`. The time is an estimate, so it has at most two parts. */
export function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A short interval for a person at a terminal, a long one for a log file. */
const intervalMs = { terminal: 100, log: 5_000 };

export interface ProgressReport {
  update(done: number, total: number, unit?: string, counted?: number): void;
  /** Leaves the cursor at the beginning of a line. */
  end(): void;
}

/**
 * Shows the progress of long work: one line that is rewritten on a terminal, a new line from time to time elsewhere.
 * @param startedAt the amount that was done before this run
 */
export function reportProgress(
  terminal: Terminal,
  label: string,
  startedAt: number | undefined,
  nowMs: () => number = () => performance.now(),
): ProgressReport {
  const beganMs = nowMs();
  const interval = terminal.rewrite ? intervalMs.terminal : intervalMs.log;
  let first = startedAt;
  let shownMs = terminal.rewrite ? -Infinity : beganMs;
  let hasLine = false;
  return {
    update(done, total, unit = 'events', counted) {
      first ??= done;
      const isLast = done >= total;
      if (nowMs() - shownMs < interval && !isLast) return;
      shownMs = nowMs();
      const doneHere = done - first;
      const progress = { done, total, doneHere, elapsedMs: shownMs - beganMs, unit, counted };
      const line = `${label}  ${progressLine(progress)}`;
      if (terminal.rewrite) terminal.rewrite(line);
      else terminal.note(line);
      hasLine = true;
    },
    end() {
      if (hasLine && terminal.rewrite) terminal.note('');
    },
  };
}
