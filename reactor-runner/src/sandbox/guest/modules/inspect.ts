const maxEntries = 100;
const maxChars = 16_384;

/** A short text of any value, similar to `util.inspect`. Getters are named, not run. */
export function inspect(value: unknown, depth = 3): string {
  return render(value, depth, []);
}

/** `%s %d %i %f %j %o %O %%`, further values joined by spaces, as in `util.format`. */
export function format(...values: unknown[]): string {
  const [first, ...rest] = values;
  if (typeof first !== 'string') return cut(values.map(asText).join(' '));
  const head = first.replace(/%[sdifjoO%]/g, (mark) => {
    if (mark === '%%') return '%';
    return rest.length === 0 ? mark : substitute(mark, rest.shift());
  });
  return cut([head, ...rest.map(asText)].join(' '));
}

function substitute(mark: string, value: unknown): string {
  switch (mark) {
    case '%s':
      return asText(value);
    case '%d':
    case '%f':
      return `${Number(value)}`;
    case '%i':
      return `${Math.trunc(Number(value))}`;
    case '%j':
      return JSON.stringify(value) ?? 'undefined';
    default:
      return inspect(value);
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : inspect(value);
}

function cut(text: string): string {
  return text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
}

function render(value: unknown, depth: number, above: object[]): string {
  switch (typeof value) {
    case 'string':
      return `'${cut(value)}'`;
    case 'bigint':
      return `${value}n`;
    case 'symbol':
      return value.toString();
    case 'function':
      return `[Function: ${value.name || '(anonymous)'}]`;
    case 'object':
      return value === null ? 'null' : renderObject(value, depth, above);
    default:
      return `${value as boolean | number | undefined}`;
  }
}

function renderObject(value: object, depth: number, above: object[]): string {
  if (above.includes(value)) return '[Circular]';
  const leaf = renderLeaf(value);
  if (leaf !== undefined) return leaf;
  if (depth < 0) return Array.isArray(value) ? '[Array]' : '[Object]';
  const inner = [...above, value];
  const list = (values: Iterable<unknown>) => entriesOf(values, (entry) => render(entry, depth - 1, inner));
  if (Array.isArray(value)) return `[${list(value)}]`;
  if (value instanceof Set) return `Set {${list(value)}}`;
  if (value instanceof Map) return `Map {${list(value)}}`;
  return renderProperties(value, (each) => render(each, depth - 1, inner));
}

function renderLeaf(value: object): string | undefined {
  if (value instanceof Error) return cut(`${value.name}: ${value.message}`);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (value instanceof RegExp) return `${value}`;
  if (ArrayBuffer.isView(value)) return `${value.constructor.name}(${value.byteLength} bytes)`;
  return undefined;
}

function renderProperties(value: object, show: (each: unknown) => string): string {
  const properties = entriesOf(
    Object.entries(Object.getOwnPropertyDescriptors(value)),
    ([key, descriptor]) => {
      const shown = descriptor.get ? '[Getter]' : show(descriptor.value);
      return `${/^[\w$]+$/.test(key) ? key : `'${key}'`}: ${shown}`;
    },
  );
  const name = (value.constructor as { name?: string } | undefined)?.name;
  const prefix = name === undefined || name === 'Object' ? '' : `${name} `;
  return properties === '' ? `${prefix}{}` : `${prefix}{ ${properties} }`;
}

function entriesOf<T>(values: Iterable<T>, show: (entry: T) => string): string {
  const shown: string[] = [];
  let chars = 0;
  for (const value of values) {
    if (shown.length === maxEntries || chars > maxChars) {
      shown.push('…');
      break;
    }
    const text = show(value);
    chars += text.length;
    shown.push(text);
  }
  return shown.join(', ');
}
