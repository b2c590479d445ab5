import { readFileSync } from 'node:fs';

/** The names in a hosts(5) file: name in lower case → addresses. */
export function parseHosts(text: string): ReadonlyMap<string, readonly string[]> {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address, ...names] = (line.split('#', 1)[0] ?? '').trim().split(/\s+/);
    if (address === undefined || address === '') continue;
    for (const name of names) {
      const known = hosts.get(name.toLowerCase()) ?? [];
      hosts.set(name.toLowerCase(), [...known, address]);
    }
  }
  return hosts;
}

export function readHostsFile(): string {
  try {
    return readFileSync('/etc/hosts', 'utf8');
  } catch {
    return '';
  }
}

/** `search` of resolv.conf(5), for names with too few dots: services of a cluster are called by their short names. */
export function readSearchDomains(): { readonly domains: readonly string[]; readonly dots: number } {
  let text = '';
  try {
    text = readFileSync('/etc/resolv.conf', 'utf8');
  } catch {
    // The file does not exist, so there are no search domains.
  }
  const domains = (/^\s*(?:search|domain)\s+(.+)$/m.exec(text)?.[1] ?? '').trim().split(/\s+/);
  const dots = Number(/^\s*options\s.*\bndots:(\d+)/m.exec(text)?.[1] ?? 1);
  return { domains: domains.filter((domain) => domain !== '' && domain !== '.').slice(0, 6), dots };
}
