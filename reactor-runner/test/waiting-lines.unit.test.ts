import { describe, expect, it } from 'vitest';
import { WaitingLines } from '../src/turns/waiting-lines.ts';

const always = () => true;
const never = () => false;

describe('lines of waiting work', () => {
  it('give tenants, and the applications of each, their turns, also after a look that found them again', () => {
    const lines = new WaitingLines();
    const ofA = {
      idsOf: new Map([
        ['x', ['x1', 'x2', 'x3']],
        ['y', ['y1']],
      ]),
      hasMore: false,
    };
    const ofB = { idsOf: new Map([['z', ['z1', 'z2']]]), hasMore: false };
    const look = () => [lines.replace('a', ofA), lines.replace('b', ofB)];
    const known = new Set<string>();
    const next = () => {
      for (const tenantId of lines.tenants) {
        const taken = lines.take(tenantId, always, (id) => known.has(id));
        if (taken === undefined) continue;
        known.add(taken.id);
        return taken.id;
      }
      return undefined;
    };
    const given = [];
    for (look(); given.length < 6; look()) given.push(next());
    expect(given).toEqual(['x1', 'z1', 'y1', 'z2', 'x2', 'x3']);
  });

  it('pass over an application that may not begin', () => {
    const lines = new WaitingLines();
    lines.replace('a', {
      idsOf: new Map([
        ['x', ['x1']],
        ['y', ['y1']],
      ]),
      hasMore: false,
    });
    const taken = lines.take('a', ({ applicationId }) => applicationId === 'y', never);
    expect(taken).toEqual({ tenantId: 'a', applicationId: 'y', id: 'y1' });
    expect(lines.take('a', always, never)?.id).toBe('x1');
  });

  it('have run out when the read model may have more of an application', () => {
    const lines = new WaitingLines();
    lines.replace('a', { idsOf: new Map([['x', ['x1']]]), hasMore: true });
    expect(lines.hasRunOut('a')).toBe(false);
    lines.take('a', always, never);
    expect(lines.hasRunOut('a')).toBe(true);
    lines.beginAnew();
    expect(lines.hasRunOut('a')).toBe(false);
  });
});
