import type { Walls } from '@token-vault/reactor-runner';
import { createLogger, createMetrics } from '@token-vault/observability';
import { describe, expect, it } from 'vitest';
import { createWallReport } from '../src/index.ts';

const walls: Walls = {
  resourceLimits: true,
  noNetwork: true,
  ownProcesses: false,
  ownFiles: false,
  systemCallFilter: false,
  unprivileged: true,
  ownAccount: false,
  permissionModel: true,
  usageWatch: true,
};

function reporting() {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as never) };
  const metrics = createMetrics('test');
  const report = createWallReport(createLogger({ service: 'test', level: 'info', destination }), metrics);
  return { lines, metrics, report };
}

describe('walls that a host does not allow', () => {
  it('are named in one line of the log, which is not repeated', () => {
    const { lines, report } = reporting();
    report(walls);
    report({ ...walls });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ msg: 'the sandbox of reactors lacks walls on this host' });
    const named = (lines[0]?.['reason'] as string).split(', ');
    expect(named).toEqual(expect.arrayContaining(['ownProcesses', 'ownAccount', 'systemCallFilter']));
    expect(named).not.toContain('noNetwork');
  });

  it('are 0 in the metrics, and the others 1', async () => {
    const { metrics, report } = reporting();
    report(walls);
    const text = await metrics.registry.metrics();
    expect(text).toMatch(/^vault_sandbox_wall\{wall="ownAccount",service="test"\} 0$/m);
    expect(text).toMatch(/^vault_sandbox_wall\{wall="noNetwork",service="test"\} 1$/m);
    const isRoot = process.getuid?.() === 0;
    expect(text).toContain(`vault_sandbox_wall{wall="unprivilegedService",service="test"} ${isRoot ? 0 : 1}`);
  });
});
