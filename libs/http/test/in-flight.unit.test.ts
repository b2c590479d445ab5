import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { InFlightBytes } from '../src/in-flight.ts';

describe('a tenant that holds its half', () => {
  const half = 1_000_000;
  const answer = () => new ServerResponse(new IncomingMessage(new Socket()));

  it('has its further bodies refused, and those of others are accepted', () => {
    const inFlight = new InFlightBytes(2 * half);
    const [greedy, more, other] = [answer(), answer(), answer()];
    expect([inFlight.assign(greedy, 'greedy'), inFlight.admits(half, greedy)]).toEqual([true, true]);
    expect([inFlight.assign(more, 'greedy'), inFlight.admits(1, more)]).toEqual([false, false]);
    expect([inFlight.assign(other, 'other'), inFlight.admits(half, other)]).toEqual([true, true]);
    greedy.emit('close');
    expect([inFlight.held, inFlight.admits(half, more)]).toEqual([half, true]);
  });

  it('by answers that it does not read does not have bodies of others refused', () => {
    const inFlight = new InFlightBytes(2 * half);
    const unread = Array.from({ length: 5 }, () => answer());
    for (const response of unread) inFlight.assign(response, 'greedy');
    for (const response of unread) inFlight.send(response, Buffer.alloc(half));
    const other = answer();
    expect([inFlight.assign(other, 'other'), inFlight.admits(half, other)]).toEqual([true, true]);
    for (const response of [...unread, other]) response.emit('close');
    expect(inFlight.held).toBe(0);
  });
});
