import { describe, expect, it } from 'vitest';
import { DeliveryPlaces } from '../src/webhooks/delivery-places.ts';

const of = (applicationId: string, tenantId = 'tenant') => ({ tenantId, applicationId });

/** Takes places until there is none. */
function takeAll(places: DeliveryPlaces, applicationId: string, tenantId?: string) {
  const taken = [];
  for (let place = places.take(of(applicationId, tenantId)); place;) {
    taken.push(place);
    place = places.take(of(applicationId, tenantId));
  }
  return taken;
}

const times = (places: readonly { timeoutMs: number }[]) => places.map(({ timeoutMs }) => timeoutMs);

describe('the places for deliveries', () => {
  it('are eight of a tenant', () => {
    const places = new DeliveryPlaces();
    const eight = takeAll(places, 'a');
    expect(times(eight)).toEqual(Array.from({ length: 8 }, () => 15_000));
    eight[0]?.leave({ isDone: true });
    expect(times(takeAll(places, 'a'))).toEqual([15_000]);
  });

  it('of a tenant that are taken leave two brief ones, for applications that have none', () => {
    const places = new DeliveryPlaces();
    places.see(of('b'));
    expect(takeAll(places, 'a')).toHaveLength(7);
    expect(times(takeAll(places, 'b'))).toEqual([15_000]);
    expect(places.hasFree(of('a'))).toBe(false);
    const [brief] = ['c', 'd', 'e'].flatMap((each) => takeAll(places, each));
    expect(brief?.timeoutMs).toBe(3_000);
    expect([places.hasFree(of('c')), places.hasFree(of('e'))]).toEqual([false, false]);
    brief?.leave({ isDone: true });
    expect(places.hasFree(of('e'))).toBe(true);
  });

  it('of all tenants that are taken leave as many brief ones', () => {
    const places = new DeliveryPlaces();
    const full = Array.from({ length: 8 }, (_, index) => takeAll(places, 'a', `full ${index}`)).flat();
    expect(full).toHaveLength(64);
    const others = Array.from({ length: 70 }, (_, index) => takeAll(places, 'a', `other ${index}`)).flat();
    expect(times(others)).toEqual(Array.from({ length: 64 }, () => 3_000));
    full[0]?.leave({ isDone: true });
    expect(times(takeAll(places, 'a', 'other 69'))).toEqual([15_000]);
  });

  it('are not brief for an application whose last delivery took longer', () => {
    let nowMs = 0;
    const places = new DeliveryPlaces(() => nowMs);
    const full = Array.from({ length: 8 }, (_, index) => takeAll(places, 'a', `full ${index}`)).flat();
    const [brief] = takeAll(places, 'slow');
    nowMs += 3_000;
    brief?.leave({ isDone: true });
    expect(places.hasFree(of('slow'))).toBe(false);
    expect(times(takeAll(places, 'other'))).toEqual([3_000]);
    // Another replica had this one in hand.
    full[1]?.leave({ isDone: true });
    places.take(of('slow'))?.leave({ isDone: false });
    takeAll(places, 'a', 'full 0');
    expect(places.hasFree(of('slow'))).toBe(false);
    full[0]?.leave({ isDone: true });
    const place = places.take(of('slow'));
    expect(place?.timeoutMs).toBe(15_000);
    // This one answered in less time.
    nowMs += 2_999;
    place?.leave({ isDone: true });
    takeAll(places, 'a', 'full 8');
    expect(times(takeAll(places, 'slow'))).toEqual([3_000]);
  });
});
