import { describe, expect, it } from 'vitest';
import { ApplicationPlaces } from '../src/turns/application-places.ts';

const of = (applicationId: string, tenantId = 'tenant') => ({ tenantId, applicationId });

describe('the places of a tenant', () => {
  it('are all for its only application', () => {
    const places = new ApplicationPlaces(2);
    const [first, second] = [places.take(of('a')), places.take(of('a'))];
    expect([first, second, places.take(of('a'))].map((each) => each !== undefined)).toEqual([
      true,
      true,
      false,
    ]);
    expect(places.take(of('a', 'other tenant'))).toBeDefined();
    first?.();
    expect(places.hasFree(of('a'))).toBe(true);
  });

  it('are not all for one of several applications', () => {
    const places = new ApplicationPlaces(3);
    const first = places.take(of('a'));
    places.take(of('a'));
    places.see(of('b'));
    expect(places.take(of('a'))).toBeUndefined();
    expect(places.take(of('b'))).toBeDefined();
    expect(places.take(of('b'))).toBeUndefined();
    first?.();
    expect(places.take(of('b'))).toBeDefined();
  });

  it('are for any application when there is only one', () => {
    const places = new ApplicationPlaces(1);
    places.see(of('b'));
    expect(places.take(of('a'))).toBeDefined();
  });
});
