import { ids, type Answered, type Flocks } from './journey.ts';
import type { Sinks } from './sinks.ts';
import { allowanceOf, storedInPlain } from './stored-in-plain.ts';
import type { Planted } from './canaries.ts';

const told = (planted: Planted | undefined): string => {
  if (!planted) return 'one of many';
  const { operation, place, entrance, caller, status } = planted;
  return `${operation} ${place}, by ${entrance}, ${caller}, answered ${status ?? 'nothing'}`;
};

/** The log, wherever it is shown or stored. */
const isLog = (sink: string): boolean => /^(rm_log\.|GET \/logs)/.test(sink);
/** Statistics of the server about tables: they hold what these hold. */
const isTable = (sink: string): boolean => /^(event_store|rm_\w+|pg_catalog)\./.test(sink);

/** Answered 2xx, or by an outcome that nobody waited for. */
const maySucceed = ({ status }: Planted): boolean => status === undefined || (status >= 200 && status < 300);

function isAllowed(sink: string, planted: Planted | undefined): boolean {
  const allowance = planted && allowanceOf(planted.operation, planted.place);
  if (!planted || !allowance || !maySucceed(planted)) return false;
  return isLog(sink) ? allowance.isLogged === true : isTable(sink) || allowance.isLogged === true;
}

/** Each leak once: what was found where. */
export function leaksIn(sinks: Sinks, { hidden, open }: Flocks): string[] {
  const leaks = new Set<string>();
  for (const [sink, text] of sinks) {
    for (const { planted, form } of hidden.in(text)) leaks.add(`${sink}: ${told(planted)}; as ${form}`);
    for (const { planted, form } of open.in(text))
      if (!isAllowed(sink, planted)) leaks.add(`${sink}: ${told(planted)}; as ${form}`);
  }
  return [...leaks];
}

/** Of the places where words are stored in plain, those at which none was found. */
export function allowedInVain(sinks: Sinks, { open }: Flocks): string[] {
  const found = new Set<string>();
  for (const [sink, text] of sinks)
    if (isTable(sink))
      for (const { planted } of open.in(text))
        if (planted) found.add(`${planted.operation} ${planted.place}`);
  return ids
    .flatMap((id) =>
      (storedInPlain[id] ?? []).flatMap(({ places }) => places.map((place) => `${id} ${place}`)),
    )
    .filter((place) => !found.has(place));
}

/** What an error may quote, to who wrote it: the path, names of fields, and which token of the arguments is not there. */
const isQuotable = ({ operation, place }: Planted): boolean =>
  place.startsWith('path') ||
  place.endsWith(' name') ||
  (operation === 'react' && place.startsWith('body.args'));

/** Canaries in answers of errors that are not those of the request, or are quoted without need. */
export function quotesIn(answered: readonly Answered[], { hidden, open }: Flocks): string[] {
  const quotes = new Set<string>();
  for (const { planted: own, operation, caller, status, text } of answered) {
    if (status < 400) continue;
    for (const { planted } of [...hidden.in(text), ...open.in(text)])
      if (!planted || !own.includes(planted) || !isQuotable(planted))
        quotes.add(`${operation} answered ${status} to ${caller}: ${told(planted)}`);
  }
  return [...quotes];
}
