import { describe, expect, it } from 'vitest';
import { createAddressPolicy } from '../src/addresses.ts';

describe('an address', () => {
  const policy = createAddressPolicy([]);

  it.each([
    '0.0.0.0',
    '10.0.0.1',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.1',
    '192.0.2.1',
    '192.168.1.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::127.0.0.1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::1',
    '100::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    'fc00::1',
    'fd12:3456::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    'not an address',
    '',
  ])('%s is not allowed', (address) => {
    expect(policy.allows(address)).toBe(false);
  });

  it.each(['1.1.1.1', '8.8.8.8', '172.32.0.1', '2606:4700::1111', '::ffff:8.8.8.8'])(
    '%s is allowed',
    (address) => {
      expect(policy.allows(address)).toBe(true);
      expect(policy.isTrusted(address)).toBe(false);
    },
  );

  it('is allowed when the operator lists its range, also in its mapped form', () => {
    const listed = createAddressPolicy(['10.1.0.0/16', '192.168.1.5', 'fd00::/8']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '192.168.1.5', 'fd00::1'])
      expect(listed.isTrusted(address)).toBe(true);
    for (const address of ['10.2.0.1', '192.168.1.6', 'fe80::1']) expect(listed.allows(address)).toBe(false);
  });

  it('list that cannot be read is refused', () => {
    expect(() => createAddressPolicy(['10.0.0.0/99'])).toThrow(TypeError);
    expect(() => createAddressPolicy(['localhost'])).toThrow(TypeError);
  });
});
