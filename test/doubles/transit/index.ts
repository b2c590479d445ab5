export {
  startTransitDouble,
  transitAuthorityFile,
  type TransitDouble,
  type TransitDoubleOptions,
  type TransitFaults,
} from './double.ts';
