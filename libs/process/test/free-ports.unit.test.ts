import { describe, expect, it } from 'vitest';
import { freePorts } from '../src/index.ts';

describe('free ports', () => {
  it('are all different', async () => {
    // Requested one after the other, some of these would be equal: the kernel has 14,000 to choose from.
    const ports = await freePorts(Array.from({ length: 500 }, () => '127.0.0.1'));
    expect(new Set(ports).size).toBe(500);
  });

  it('are released', async () => {
    const [port = 0] = await freePorts(['127.0.0.1']);
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toMatchObject({
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('are refused for a host of another machine', async () => {
    await expect(freePorts(['127.0.0.1', '192.0.2.1'])).rejects.toMatchObject({ code: 'EADDRNOTAVAIL' });
  });
});
