// Loaded into a vault by `--import`. Its clock is ahead by the milliseconds that the file says: see movable-clock.ts.
import { readFileSync } from 'node:fs';

const everyMs = 10;
const Real = Date;
let aheadMs = 0;

function read(): void {
  try {
    aheadMs = Number(readFileSync(process.env['TEST_CLOCK_FILE'] ?? '', 'utf8'));
  } catch {
    // Processes of the sandbox do not have the file.
  }
}

class Ahead extends Real {
  constructor(...given: readonly unknown[]) {
    super(...((given.length === 0 ? [Real.now() + aheadMs] : given) as [number]));
  }
  static override now(): number {
    return Real.now() + aheadMs;
  }
}

read();
setInterval(read, everyMs).unref();
globalThis.Date = Ahead as DateConstructor;
