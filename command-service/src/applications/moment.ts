/** A time without seconds gets `:00`, a time without an offset is UTC (interface.md, Token expiration formats). */
export function withOffset(moment: string): string {
  const toTheSecond = moment.replace(/(T\d\d:\d\d)$/, '$1:00');
  return /(Z|[+-]\d\d:\d\d)$/i.test(toTheSecond) ? toTheSecond : `${toTheSecond}Z`;
}
