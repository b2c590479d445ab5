import { beforeEach, describe, expect, it } from 'vitest';
import { PresentTenants } from '../src/index.ts';

let nowMs: number;
let present: PresentTenants;
beforeEach(() => {
  nowMs = 1_000_000;
  present = new PresentTenants(() => nowMs);
});

describe('a tenant', () => {
  it('is alone when no other one was seen in the last 100 ms', () => {
    expect(present.isAlone('a')).toBe(true);
    present.see('a');
    expect(present.isAlone('a')).toBe(true);
    expect(present.isAlone('b')).toBe(false);
    present.see('b');
    nowMs += 99;
    present.see('a');
    expect(present.isAlone('a')).toBe(false);
    nowMs += 1;
    expect(present.isAlone('a')).toBe(true);
    expect(present.isAlone('b')).toBe(false);
  });

  it('is not alone beside the later one of two others', () => {
    present.see('b');
    nowMs += 200;
    present.see('c');
    present.see('a');
    expect(present.isAlone('a')).toBe(false);
    nowMs += 50;
    present.see('b');
    nowMs += 60;
    expect(present.isAlone('a')).toBe(false);
    expect(present.isAlone('b')).toBe(true);
  });
});
