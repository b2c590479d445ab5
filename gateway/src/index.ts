export { startGateway, type Gateway } from './gateway.ts';
export { destinationOf, originForm, type Destination, type Service } from './routes.ts';
export { readGatewaySettings, type GatewaySettings } from './settings.ts';
