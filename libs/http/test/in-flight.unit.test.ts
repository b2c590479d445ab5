import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { InFlightBytes } from '../src/in-flight.ts';

const mebibyte = 1024 * 1024;
/** Half of it is the share of a tenant, half of that the share of an application alone. */
const limit = 4 * mebibyte;
const answer = () => new ServerResponse(new IncomingMessage(new Socket()));
/** A body of one byte more is large. */
const small = 16 * 1024 - 1;
const large = small + 1;
const of = (applicationId: string, tenantId = 'greedy') => ({ tenantId, applicationId });

/** An answer to a request of the application. Undefined when the request is refused. */
function ask(inFlight: InFlightBytes, holder = of('app')): ServerResponse | undefined {
  const response = answer();
  inFlight.assign(response, holder);
  try {
    inFlight.requireRead(holder);
    return response;
  } catch {
    return undefined;
  }
}

/** Whether a body of this size is accepted. */
const sends = (inFlight: InFlightBytes, size: number, response = answer()) => inFlight.admits(size, response);

describe('an application that holds what it may', () => {
  it('has its further bodies refused, and those of others of its tenant and of other tenants are accepted', () => {
    const inFlight = new InFlightBytes(limit);
    const [greedy, more] = [ask(inFlight), ask(inFlight)];
    expect([sends(inFlight, mebibyte, greedy), sends(inFlight, large, ask(inFlight))]).toEqual([true, false]);
    const [beside, other] = [ask(inFlight, of('beside')), ask(inFlight, of('app', 'other'))];
    expect(sends(inFlight, mebibyte / 2 + 1, beside)).toBe(false);
    expect([sends(inFlight, mebibyte / 2, beside), sends(inFlight, mebibyte, other)]).toEqual([true, true]);
    for (const response of [greedy, beside]) response?.emit('close');
    expect([inFlight.held, sends(inFlight, mebibyte, more)]).toEqual([mebibyte, true]);
  });

  it('by answers that it does not read is refused, and no other application of its tenant', () => {
    const inFlight = new InFlightBytes(limit);
    const unread = Array.from({ length: 5 }, () => ask(inFlight) ?? answer());
    for (const response of unread) inFlight.send(response, Buffer.alloc(mebibyte));
    expect(ask(inFlight)).toBeUndefined();
    const beside = ask(inFlight, of('beside'));
    expect([beside && sends(inFlight, mebibyte / 2, beside), inFlight.held]).toEqual([true, 1.5 * mebibyte]);
    for (const response of [...unread, beside]) response?.emit('close');
    expect([inFlight.held, ask(inFlight) === undefined]).toEqual([0, false]);
  });

  it('by bodies is answered requests without one, also beside others', () => {
    const inFlight = new InFlightBytes(limit);
    const holders = [of('app'), of('beside')];
    expect(
      holders.map((each, index) => sends(inFlight, mebibyte / (index + 1), ask(inFlight, each))),
    ).toEqual([true, true]);
    expect(holders.map((each) => ask(inFlight, each) === undefined)).toEqual([false, false]);
  });
});

describe('tenants that hold what they may', () => {
  const holdersOf = (tenant: number) => [of('one', `tenant ${tenant}`), of('other', `tenant ${tenant}`)];

  it('leave room to one more, and small bodies have room of their own', () => {
    const inFlight = new InFlightBytes(limit);
    const bodies = Array.from({ length: 4 }, (_, tenant) => holdersOf(tenant))
      .flat()
      .flatMap((holder) => Array.from({ length: 300 }, () => ask(inFlight, holder)))
      .map((response) => [response, sends(inFlight, large, response)] as const);
    expect(bodies.some(([, isAccepted]) => !isAccepted)).toBe(true);
    expect(inFlight.held).toBeLessThan(limit);
    const victim = of('app', 'victim');
    expect(sends(inFlight, 64 * 1024, ask(inFlight, victim))).toBe(true);
    const many = holdersOf(5).flatMap((holder) => Array.from({ length: 400 }, () => ask(inFlight, holder)));
    expect(many.map((response) => sends(inFlight, small, response))).toContain(false);
    expect(sends(inFlight, small, ask(inFlight, victim))).toBe(true);
    for (const response of [...bodies.map(([each]) => each), ...many]) response?.emit('close');
    expect(inFlight.held).toBe(64 * 1024 + small);
  });

  it('by parts of a body: one that becomes large moves to the room of large ones', () => {
    const inFlight = new InFlightBytes(limit);
    const response = ask(inFlight);
    const parts = Array.from({ length: 64 }, () => sends(inFlight, small, response));
    expect([parts.includes(false), inFlight.held]).toEqual([false, 64 * small]);
    response?.emit('close');
    expect(inFlight.held).toBe(0);
  });
});
