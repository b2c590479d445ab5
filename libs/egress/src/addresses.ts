import ipaddr from 'ipaddr.js';

export interface AddressPolicy {
  /** True for addresses of the public internet and for those that the operator allowed. */
  allows(address: string): boolean;
  /**
   * True only for addresses that the operator allowed by `VAULT_EGRESS_ALLOW`. Only they may be reached by plain http
   * and on other ports.
   */
  isTrusted(address: string): boolean;
}

const globalUnicastIpv6 = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number];

/** @throws {TypeError} when an entry is not a CIDR or an address */
export function createAddressPolicy(allowCidrs: readonly string[]): AddressPolicy {
  const allowed = allowCidrs.map(parseRange);
  const isTrusted = (text: string): boolean => {
    const address = parseAddress(text);
    return address !== undefined && allowed.some((range) => matches(address, range));
  };
  return { isTrusted, allows: (text) => isTrusted(text) || isPublic(text) };
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

function isPublic(text: string): boolean {
  const address = parseAddress(text);
  if (address === undefined || address.range() !== 'unicast') return false;
  // Every IPv6 form that carries an IPv4 address (compatible, NAT64, translated) lies outside 2000::/3 or, like 6to4
  // and Teredo, has its own range in ipaddr.js.
  return address.kind() === 'ipv4' || (address as ipaddr.IPv6).match(...globalUnicastIpv6);
}

/** An IPv4-mapped IPv6 address is turned into the IPv4 address that it reaches. */
function parseAddress(text: string): Address | undefined {
  const bare = text.replace(/%.*$/, '');
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
}

function parseRange(entry: string): [Address, number] {
  const text = entry.trim();
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text);
  if (!ipaddr.isValid(text)) throw new TypeError(`"${text}" is not an address or a CIDR`);
  const address = ipaddr.parse(text);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

function matches(address: Address, [network, bits]: [Address, number]): boolean {
  if (address.kind() !== network.kind()) return false;
  return address.kind() === 'ipv4'
    ? (address as ipaddr.IPv4).match(network, bits)
    : (address as ipaddr.IPv6).match(network, bits);
}
