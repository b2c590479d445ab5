/** One entry of the setting `proxy_destinations`. */
export interface DestinationPattern {
  readonly protocol: string;
  /** In lower case and punycode, as in a URL. For a pattern with subdomains: the part after `*.`. */
  readonly hostname: string;
  readonly port: string;
  readonly hasSubdomains: boolean;
}

const wildcard = /^(https?:\/\/)\*\.(.+)$/i;

/** `https://host`, `https://host:port`, `https://*.example.com`; undefined for any other text. */
function parsePattern(text: string): DestinationPattern | undefined {
  const [, scheme = '', rest = ''] = wildcard.exec(text) ?? [];
  const hasSubdomains = rest !== '';
  const url = URL.parse(hasSubdomains ? scheme + rest : text);
  const isPlain =
    url !== null &&
    /^https?:$/.test(url.protocol) &&
    !/[*@?#\\]/.test(hasSubdomains ? rest : text) &&
    url.pathname === '/';
  if (!isPlain || (hasSubdomains && /^[\d.]+$|^\[/.test(url.hostname))) return undefined;
  return { protocol: url.protocol, hostname: url.hostname, port: url.port, hasSubdomains };
}

/**
 * The destinations that a tenant allows its proxies: patterns separated by commas, spaces or line ends. Undefined when one of them
 * cannot be read.
 */
export function parseDestinations(setting: string): readonly DestinationPattern[] | undefined {
  const patterns = setting
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .map(parsePattern);
  const valid = patterns.filter((pattern) => pattern !== undefined);
  return valid.length === patterns.length ? valid : undefined;
}

/** Whether one of the patterns covers the URL: its scheme, host and port. `*.` stands for one or more labels. */
export const coversDestination = (patterns: readonly DestinationPattern[], url: URL): boolean =>
  patterns.some(
    ({ protocol, hostname, port, hasSubdomains }) =>
      url.protocol === protocol &&
      url.port === port &&
      (hasSubdomains ? url.hostname.endsWith(`.${hostname}`) : url.hostname === hostname),
  );
