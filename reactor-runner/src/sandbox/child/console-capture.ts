import type { ConsoleLine } from '@token-vault/contracts';
import type { SandboxLimits } from '../limits.ts';
import type { GuestConsole } from '../outcome.ts';

const levels: readonly string[] = ['debug', 'error', 'info', 'log', 'warn'] satisfies ConsoleLine['level'][];

/** Collects the output of a guest up to the limits. Further output is dropped, and a flag says so. */
export function createConsoleCapture(limits: SandboxLimits) {
  const lines: ConsoleLine[] = [];
  let left = limits.consoleBytes;
  let truncated = false;
  return {
    add(level: string, text: string): void {
      if (!levels.includes(level) || lines.length >= limits.consoleLines || left <= 0) {
        truncated = true;
        return;
      }
      const kept = text.slice(0, left);
      truncated ||= kept.length < text.length;
      left -= kept.length;
      lines.push({ level: level as ConsoleLine['level'], text: kept });
    },
    content: (): GuestConsole => ({ lines, truncated }),
  };
}
