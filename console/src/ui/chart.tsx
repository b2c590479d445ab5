import { useEffect, useRef, useState } from 'react';
import type * as PlotLibrary from '@observablehq/plot';
import { Table } from './table.tsx';

type Plot = typeof PlotLibrary;
let library: Promise<Plot> | undefined;
const loadPlot = (): Promise<Plot> => (library ??= import('@observablehq/plot'));

/**
 * Draws in a document of its own. Plot writes `<style>` elements and `style` attributes, which the page's Content-Security-Policy forbids
 * in the page itself. They are taken off there: main.css has the rules of the element, and the styles are set again through the CSSOM,
 * which is allowed.
 */
function drawApart(
  plot: Plot,
  options: PlotLibrary.PlotOptions,
): { figure: Element; styles: Map<Element, string> } {
  const apart = document.implementation.createHTMLDocument('');
  const figure = plot.plot({ ...options, document: apart });
  for (const style of figure.querySelectorAll('style')) style.remove();
  const styles = new Map<Element, string>();
  for (const element of [figure, ...figure.querySelectorAll('[style]')]) {
    const text = element.getAttribute('style');
    if (text === null) continue;
    styles.set(element, text);
    element.removeAttribute('style');
  }
  return { figure, styles };
}

function show(room: HTMLElement, { figure, styles }: ReturnType<typeof drawApart>): void {
  // The data of the chart is in its label and in the table below.
  figure.setAttribute('aria-hidden', 'true');
  room.replaceChildren(figure);
  for (const [element, text] of styles) {
    if (element instanceof SVGElement || element instanceof HTMLElement) element.style.cssText = text;
  }
}

/** The labels of an axis of time: 24 hours, UTC, the date at midnight. */
export function timeLabel(time: Date): string {
  const text = time.toISOString();
  return text.slice(11, 16) === '00:00' ? text.slice(5, 10) : text.slice(11, 16);
}

/** The width of an element, which changes with the window. */
function useWidth(ref: React.RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(Math.round(element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return width;
}

interface ChartProps {
  readonly label: string;
  readonly draw: (plot: Plot) => PlotLibrary.PlotOptions;
  readonly children?: React.ReactNode;
}

/** A chart as a picture with a label. `draw` must be stable (`useCallback`), because a new one draws again. */
export function Chart({ label, draw, children }: ChartProps) {
  const room = useRef<HTMLDivElement>(null);
  const width = useWidth(room);
  useEffect(() => {
    if (width === 0) return;
    let isCurrent = true;
    void loadPlot().then((plot) => {
      if (isCurrent && room.current !== null) show(room.current, drawApart(plot, { ...draw(plot), width }));
    });
    return () => {
      isCurrent = false;
    };
  }, [draw, width]);
  return (
    <div className="chart">
      <div ref={room} className="chart-room" role="img" aria-label={label} />
      {children}
    </div>
  );
}

interface NumbersProps {
  readonly label: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

/** The numbers of a chart as a table, for people who cannot see the chart or need exact values. */
export function Numbers({ label, columns, rows }: NumbersProps) {
  return (
    <details className="numbers">
      <summary>{label}</summary>
      <Table
        label={label}
        columns={columns.map((name, index) => ({
          name,
          isNumber: index > 0,
          show: (row: readonly (string | number)[]) => row[index],
        }))}
        rows={rows}
        keyOf={(row) => row.join(' ')}
      />
    </details>
  );
}
