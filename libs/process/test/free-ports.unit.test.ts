import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { freePorts } from '../src/index.ts';

describe('free ports', () => {
  it('are all different', async () => {
    const ports = await freePorts(Array.from({ length: 500 }, () => '127.0.0.1'));
    expect(new Set(ports).size).toBe(500);
  });

  it('are none from which outgoing connections take theirs', async () => {
    const ports = await freePorts(Array.from({ length: 500 }, () => '127.0.0.1'));
    expect(Math.max(...ports)).toBeLessThan(32_768);
  });

  it('are passed over when they are taken', async () => {
    const [taken = 0] = await freePorts(['127.0.0.1']);
    const server = createServer().listen(taken, '127.0.0.1');
    await once(server, 'listening');
    vi.spyOn(Math, 'random').mockReturnValueOnce((taken - 12_000 + 0.5) / 20_768);
    const [next = 0] = await freePorts(['127.0.0.1']);
    expect(next).toBeGreaterThan(taken);
    server.close();
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
