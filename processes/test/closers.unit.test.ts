import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Closers } from '../src/closers.ts';

const silent = () => new Promise<never>(() => {});

describe('the parts of a process', () => {
  it('are closed in the reverse order, each when the one before it is closed', async () => {
    const closers = new Closers();
    const closed: string[] = [];
    const close = async (name: string) => {
      await delay(1);
      closed.push(name);
    };
    closers.add('first', close);
    closers.addConnection('second', close);
    closers.add('third', close);
    await closers.close();
    expect(closed).toEqual(['third', 'second', 'first']);
  });

  it('are closed although connections among them do not end', async () => {
    const closers = new Closers(20);
    const closed: string[] = [];
    closers.add('work', async (name) => void closed.push(name));
    for (const name of ['a', 'b']) closers.addConnection(name, silent);
    await closers.close();
    expect(closed).toEqual(['work']);
  });

  it('leave the time of connections to them, however long the work takes', async () => {
    const closers = new Closers(500);
    let isClosed = false;
    closers.addConnection('connection', async () => {
      await delay(5);
      isClosed = true;
    });
    closers.add('work', () => delay(550));
    closers.addConnection('other connection', async () => undefined);
    await closers.close();
    expect(isClosed).toBe(true);
  });

  it('tell of the first that fails to close', async () => {
    const closers = new Closers();
    closers.addConnection('connection', async () => {
      throw new Error('lost');
    });
    await expect(closers.close()).rejects.toThrow('lost');
  });
});
